// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/process_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <string_view>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"

namespace keel {

Status process_start_time(int64_t pid, uint64_t* out_start_time) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT) return failure(KEEL_NOT_FOUND, "there is no process {}", pid);
    return system_failure(errno, path);
  }
  std::array<char, 1024> buffer;  // 52 numbers and a name of 15 characters take about 350 bytes
  const ssize_t got = read(file.get(), buffer.data(), buffer.size());
  if (got < 0) {
    if (errno == ESRCH) return failure(KEEL_NOT_FOUND, "process {} has ended", pid);
    return system_failure(errno, path);
  }
  std::string_view text(buffer.data(), static_cast<size_t>(got));
  // Field 2, the name, is in parentheses and may contain any characters.
  constexpr int kFieldAfterName = 3;
  constexpr int kStartTime = 22;
  const size_t name_end = text.rfind(')');
  text.remove_prefix(name_end == std::string_view::npos ? text.size() : name_end + 1);
  for (int field = kFieldAfterName; field <= kStartTime; ++field) {
    const size_t blank = text.find(' ');
    text.remove_prefix(blank == std::string_view::npos ? text.size() : blank + 1);
    if (field != kStartTime) continue;
    if (std::from_chars(text.data(), text.data() + text.size(), *out_start_time).ec ==
        std::errc()) {
      return {};
    }
  }
  return failure(KEEL_INTERNAL, "{} has no start time", path);
}

namespace {

// False where /proc belongs to another pid namespace, whose pids name other processes.
bool proc_shows_own_pids() {
  std::array<char, 32> shown = {};
  return readlink("/proc/self", shown.data(), shown.size() - 1) > 0 &&
         std::string_view(shown.data()) == fmt::format("{}", getpid());
}

}  // namespace

Status own_start_time(uint64_t* out_start_time) {
  *out_start_time = 0;
  return proc_shows_own_pids() ? process_start_time(getpid(), out_start_time) : Status();
}

bool has_process_ended(int64_t pid, uint64_t start_time) {
  if (pid <= 0 || pid > INT_MAX || start_time == 0 || !proc_shows_own_pids()) return false;
  const FileDescriptor fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  if (!fd) return errno == ESRCH;
  uint64_t started = 0;
  const Status read = process_start_time(pid, &started);
  if (read.code() == KEEL_NOT_FOUND || (read.ok() && started != start_time)) return true;
  // /proc still shows a process that no parent has waited for.
  pollfd ended = {fd.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

ProcessWatch& ProcessWatch::get() {
  static ProcessWatch& instance = *new ProcessWatch;
  return instance;
}

Status ProcessWatch::watch(int64_t pid, uint64_t start_time, std::function<void()> on_exit,
                           uint64_t* out_watch) {
  if (pid <= 0 || pid > INT_MAX) return failure(KEEL_INVALID_ARGUMENT, "pid is {}", pid);
  FileDescriptor fd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
  bool has_ended = false;
  if (!fd) {
    if (errno == ENOSYS) {
      return failure(KEEL_UNSUPPORTED, "this kernel has no pidfd_open: it is older than 5.3");
    }
    if (errno != ESRCH) return system_failure(errno, fmt::format("pidfd_open of {}", pid));
    has_ended = true;
  } else if (start_time != 0 && proc_shows_own_pids()) {
    // Read while the pidfd is open, which pins the pid to one process.
    uint64_t started = 0;
    const Status read = process_start_time(pid, &started);
    if (read.failed() && read.code() != KEEL_NOT_FOUND) return read;
    has_ended = !read.ok() || started != start_time;
  }
  if (has_ended) {
    fd = FileDescriptor(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));  // readable at once
    if (!fd) return system_failure(errno, "eventfd");
  }
  return ServiceThread::get().add(
      std::move(fd), EPOLLIN,
      [on_exit = std::move(on_exit)](uint64_t id, uint32_t) {
        ServiceThread::get().remove(id);
        on_exit();
      },
      out_watch);
}

void ProcessWatch::unwatch(uint64_t watch) {
  ServiceThread::get().remove(watch);
}

}  // namespace keel
