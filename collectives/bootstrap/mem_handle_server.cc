// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/mem_handle_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "collectives/bootstrap/listener.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/proc_peers.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "core/log.h"

namespace keel {

namespace {

// Limit for a new connection to send its request.
constexpr int64_t kRequestLimitNs = 5'000'000'000;

}  // namespace

Status check_object(int fd, ObjectId* out_id) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return system_failure(errno, "fstat");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (!S_ISREG(info.st_mode) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return failure(KEEL_FAILED_PRECONDITION, "it is not sealed against shrinking");
  }
  *out_id = {info.st_dev, info.st_ino};
  return {};
}

std::string share_name(const ProcessToken& token) {
  return "keel-share-" + token.hex();
}

MemHandleServer& MemHandleServer::get() {
  static MemHandleServer& instance = *new MemHandleServer;
  return instance;
}

MemHandleServer::MemHandleServer() : token_status_(random_bytes(&token_.bytes)) {}

Status MemHandleServer::publish(FileDescriptor fd, ObjectId* out_id) {
  ObjectId id;
  KEEL_RETURN_IF_ERROR(check_object(fd.get(), &id).with_prefix("publish: "));
  std::lock_guard lock(mutex_);
  KEEL_RETURN_IF_ERROR(listen_locked());
  Object& object = objects_[id];
  if (object.count++ == 0) object.fd = std::move(fd);
  *out_id = id;
  return {};
}

Status MemHandleServer::listen() {
  std::lock_guard lock(mutex_);
  return listen_locked();
}

Status MemHandleServer::listen_locked() {
  if (is_listening_) return {};
  KEEL_RETURN_IF_ERROR(token_status_);
  uint64_t listener = 0;
  KEEL_RETURN_IF_ERROR(start_listening(
      share_name(token_),
      [this](FileDescriptor socket, const Peer& peer) { on_peer(std::move(socket), peer); },
      &listener));
  is_listening_ = true;
  return {};
}

void MemHandleServer::withdraw(const ObjectId& id) {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(id);
  if (found != objects_.end() && --found->second.count == 0) objects_.erase(found);
}

bool MemHandleServer::has(const ObjectId& id) {
  std::lock_guard lock(mutex_);
  return objects_.contains(id);
}

Status MemHandleServer::open(const ObjectId& id, FileDescriptor* out_fd) {
  std::lock_guard lock(mutex_);
  int fd = -1;
  KEEL_RETURN_IF_ERROR(find_locked(id, &fd));
  FileDescriptor own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!own) return system_failure(errno, "F_DUPFD_CLOEXEC");
  *out_fd = std::move(own);
  return {};
}

Status MemHandleServer::find_locked(const ObjectId& id, int* out_fd) {
  const auto found = objects_.find(id);
  if (found == objects_.end()) {
    return failure(KEEL_NOT_FOUND, "process {} does not share object {}:{}", getpid(), id.device,
                   id.inode);
  }
  *out_fd = found->second.fd.get();
  return {};
}

void MemHandleServer::on_peer(FileDescriptor socket, const Peer& peer) {
  const int number = socket.get();
  uint64_t connection = 0;
  const Status added = ServiceThread::get().add(
      std::move(socket), EPOLLIN,
      [this, number, peer](uint64_t id, uint32_t events) {
        // One request per connection. A silent connection closes at the deadline, but a spurious
        // wake-up without data does not count as silence: the request may still arrive.
        const Next next = events == 0 ? Next::kClose : on_request(number, peer);
        if (next == Next::kHold) ServiceThread::get().set_deadline(id, std::nullopt);
        if (next == Next::kClose) ServiceThread::get().remove(id);
      },
      &connection);
  if (!added.ok()) {
    log(KEEL_LOG_WARNING, "process {} is not answered: {}", peer.pid, added.text());
    return;
  }
  ServiceThread::get().set_deadline(connection, Deadline::after(kRequestLimitNs));
}

MemHandleServer::Next MemHandleServer::on_request(int socket, const Peer& peer) {
  Packet packet;
  Status answered = receive_packet(socket, &packet);
  if (answered.code() == KEEL_NOT_READY) return Next::kWait;
  if (answered.ok() && parse_hold(packet.bytes).ok()) return Next::kHold;
  if (answered.ok()) answered = answer(packet.bytes, socket, peer);
  if (!answered.ok()) send_answer(socket, answered);
  return Next::kClose;
}

Status MemHandleServer::answer(ByteView request, int socket, const Peer& peer) {
  ObjectId id;
  KEEL_RETURN_IF_ERROR(parse_request(request, &id));
  std::lock_guard lock(mutex_);  // keeps |fd| from being closed and its number reused
  int fd = -1;
  KEEL_RETURN_IF_ERROR(find_locked(id, &fd));
  const std::array<int, 1> descriptors = {fd};
  return send_packet(socket, write_answer({}), descriptors)
      .with_prefix(fmt::format("handing an object to process {}: ", peer.pid));
}

Status fetch_object(const ProcessToken& owner, const ObjectId& id, const Deadline& deadline,
                    const std::function<bool()>& is_given_up, FileDescriptor* out_fd) {
  constexpr int64_t kSliceNs = 20'000'000;
  const std::string what = fmt::format("object {}:{} of {}: ", id.device, id.inode, owner.hex());
  if (ProcPeer other; ProcPeers::get().find(owner, &other)) {
    return fetch_through_proc(other, id, out_fd).with_prefix(what);
  }
  FileDescriptor socket;
  Peer peer;
  const Status connected = connect_to(share_name(owner), Absence::kFails, deadline, &socket, &peer);
  if (connected.code() == KEEL_NOT_FOUND) {
    return failure(KEEL_RANK_FAILED, "{}it has ended: {}", what, connected.text());
  }
  KEEL_RETURN_IF_ERROR(connected.with_prefix(what));
  // A server that refuses the request may still have sent the reason.
  const Status asked = send_packet(socket.get(), write_request(id), {});
  if (asked.failed() && asked.code() != KEEL_ABORTED) return asked.with_prefix(what);
  const std::string from = fmt::format("{}process {}: ", what, peer.pid);
  Packet packet;
  Status received;
  do {
    if (is_given_up()) return failure(KEEL_ABORTED, "{}it was given up", from);
    const Deadline slice = Deadline::after(std::min(kSliceNs, deadline.remaining_ns()));
    received = receive_packet(socket.get(), slice, &packet);
  } while (received.code() == KEEL_TIMED_OUT && !deadline.passed());
  if (received.code() == KEEL_ABORTED) {
    return failure(KEEL_RANK_FAILED, "{}it ended before it answered", from);
  }
  KEEL_RETURN_IF_ERROR(received.with_prefix(from));
  Status answer;
  KEEL_RETURN_IF_ERROR(parse_answer(packet.bytes, &answer).with_prefix(from));
  KEEL_RETURN_IF_ERROR(answer.with_prefix(from));
  if (packet.descriptors.size() != 1) {
    return failure(KEEL_DATA_LOSS, "{}an answer with {} descriptors came", from,
                   packet.descriptors.size());
  }
  ObjectId found;
  KEEL_RETURN_IF_ERROR(check_object(packet.descriptors[0].get(), &found).with_prefix(from));
  if (found != id) {
    return failure(KEEL_FAILED_PRECONDITION, "{}another object came, {}:{}", from, found.device,
                   found.inode);
  }
  *out_fd = std::move(packet.descriptors[0]);
  return {};
}

}  // namespace keel
