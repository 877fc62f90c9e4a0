// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/proc_peers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"

namespace keel {

namespace {

ObjectId id_of(const struct stat& info) {
  return {info.st_dev, info.st_ino};
}

Status gone(const ProcPeer& peer) {
  return failure(KEEL_NOT_FOUND, "process {} has ended, or replaced its program", peer.pid);
}

// KEEL_OK if /proc shows |peer|.
Status check_shown(const ProcPeer& peer) {
  if (peer.start_time == 0) {
    return failure(KEEL_UNSUPPORTED,
                   "process {} is in another network namespace, and its /proc does not belong to "
                   "its pid namespace: mount one (unshare --mount-proc)",
                   peer.pid);
  }
  return has_process_ended(peer.pid, peer.start_time) ? gone(peer) : Status();
}

Status proc_failure(const ProcPeer& peer, int error) {
  if (error == ENOENT || error == ESRCH) return gone(peer);
  if (error != EACCES && error != EPERM) {
    return system_failure(error, fmt::format("/proc/{}/fd", peer.pid));
  }
  return failure(KEEL_PERMISSION_DENIED,
                 "process {} is in another network namespace, so its memory must be opened through "
                 "/proc/{}/fd, which the kernel forbids: all ranks need the same user and group, "
                 "one user namespace, and equal capabilities",
                 peer.pid, peer.pid);
}

}  // namespace

ProcPeers& ProcPeers::get() {
  static ProcPeers& instance = *new ProcPeers;
  return instance;
}

Status ProcPeers::own_lifeline(Lifeline* out_lifeline) {
  std::lock_guard lock(mutex_);
  if (!read_end_) {
    std::array<int, 2> ends = {-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return system_failure(errno, "pipe2");
    FileDescriptor read_end(ends[0]);
    FileDescriptor write_end(ends[1]);
    struct stat info = {};
    if (fstat(read_end.get(), &info) != 0) return system_failure(errno, "fstat of a pipe");
    uint64_t entry = 0;
    // Nothing is waited for: the entry is there for its descriptor.
    KEEL_RETURN_IF_ERROR(ServiceThread::get().add(
        std::move(write_end), 0, [](uint64_t, uint32_t) {}, &entry));
    own_ = {read_end.get(), id_of(info)};
    read_end_ = std::move(read_end);
  }
  *out_lifeline = own_;
  return {};
}

void ProcPeers::add(const ProcessToken& process, const ProcPeer& peer) {
  std::lock_guard lock(mutex_);
  peers_.insert_or_assign(process, peer);
}

bool ProcPeers::find(const ProcessToken& process, ProcPeer* out_peer) {
  std::lock_guard lock(mutex_);
  const auto found = peers_.find(process);
  if (found == peers_.end()) return false;
  *out_peer = found->second;
  return true;
}

Status fetch_through_proc(const ProcPeer& peer, const ObjectId& id, FileDescriptor* out_fd) {
  const auto has_ended = [](const Status& status) {
    return status.code() == KEEL_NOT_FOUND ? Status(KEEL_RANK_FAILED, status.text()) : status;
  };
  KEEL_RETURN_IF_ERROR(has_ended(check_shown(peer)));
  const std::string path = fmt::format("/proc/{}/fd", peer.pid);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path.c_str()), &closedir);
  if (!folder) return has_ended(proc_failure(peer, errno));
  const int at = dirfd(folder.get());
  while (const dirent* const entry = readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    struct stat info = {};
    if (fstatat(at, entry->d_name, &info, 0) != 0) {
      if (errno == ENOENT) continue;  // closed meanwhile
      return has_ended(proc_failure(peer, errno));
    }
    if (id_of(info) != id) continue;
    FileDescriptor opened(openat(at, entry->d_name, O_RDWR | O_CLOEXEC));
    if (!opened && errno == ENOENT) continue;
    if (!opened) return has_ended(proc_failure(peer, errno));
    ObjectId found;
    KEEL_RETURN_IF_ERROR(check_object(opened.get(), &found).with_prefix(path + ": "));
    if (found != id) continue;  // the number was reused
    *out_fd = std::move(opened);
    return {};
  }
  KEEL_RETURN_IF_ERROR(has_ended(check_shown(peer)));
  return failure(KEEL_NOT_FOUND, "process {} does not share object {}:{}", peer.pid, id.device,
                 id.inode);
}

Status open_lifeline(const ProcPeer& peer, FileDescriptor* out_read_end) {
  KEEL_RETURN_IF_ERROR(check_shown(peer));
  const std::string path = fmt::format("/proc/{}/fd/{}", peer.pid, peer.lifeline.number);
  // Only a pipe is opened: the number may be another file's by now.
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return proc_failure(peer, errno);
  if (id_of(info) != peer.lifeline.pipe || !S_ISFIFO(info.st_mode)) return gone(peer);
  FileDescriptor opened(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!opened) return proc_failure(peer, errno);
  if (fstat(opened.get(), &info) != 0) return system_failure(errno, "fstat of a lifeline");
  if (id_of(info) != peer.lifeline.pipe) return gone(peer);
  *out_read_end = std::move(opened);
  return {};
}

}  // namespace keel
