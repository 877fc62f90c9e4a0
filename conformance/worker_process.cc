// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

namespace keel::conformance {

namespace {

constexpr size_t kPrintedBytes = 2048;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

struct Pipe {
  int read_end;
  int write_end;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail(errno, "pipe2");
  return {ends[0], ends[1]};
}

// A file in memory that holds |text|, to be read from its begin.
int make_input(const std::string& text) {
  const int fd = memfd_create("keel-conform-request", MFD_CLOEXEC);
  if (fd < 0) fail(errno, "memfd_create");
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(fd, 0, SEEK_SET) != 0) {
    close(fd);
    fail(errno, "writing the worker's request");
  }
  return fd;
}

bool has_ended(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerRequest& request) {
  const int input = make_input(to_text(request));
  const Pipe answers = make_pipe();
  const Pipe output = make_pipe();
  answers_ = answers.read_end;
  output_ = output.read_end;
  fcntl(output_, F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // In this order: |input| may itself be kAnswerDescriptor, and is free once it is copied.
  // dup2 of a descriptor onto itself clears close-on-exec here.
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write_end, kAnswerDescriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // killed as a whole
  std::string program = "keel";
  std::string command = kWorkerCommand;
  char* arguments[] = {program.data(), command.data(), nullptr};
  // A caller's GTEST_FILTER, GTEST_OUTPUT and the like are meant for its own tests.
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("GTEST_")) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  const int error =
      posix_spawn(&pid_, "/proc/self/exe", &actions, &attributes, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(input);
  close(answers.write_end);
  close(output.write_end);
  if (error != 0) {
    close(answers_);
    close(output_);
    fail(error, "posix_spawn of a worker");
  }
}

WorkerProcess::~WorkerProcess() {
  finish();
  close(answers_);
  close(output_);
}

void WorkerProcess::take_printed() {
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t count = ::read(output_, buffer.data(), buffer.size());
    if (count <= 0) break;
    printed_.append(buffer.data(), static_cast<size_t>(count));
    if (printed_.size() > kPrintedBytes) printed_.erase(0, printed_.size() - kPrintedBytes);
  }
}

WorkerProcess::Read WorkerProcess::read(Clock::time_point deadline, WorkerAnswer* out_answer) {
  std::array<char, 16384> buffer;
  while (true) {
    const size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      const std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      // A line that is no answer came from the plugin: descriptor 3 is no secret.
      if (from_text(line, out_answer)) return Read::kAnswer;
      continue;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return Read::kTimedOut;
    pollfd waited[2] = {{answers_, POLLIN, 0}, {output_, POLLIN, 0}};
    if (poll(waited, 2, static_cast<int>(left) + 1) < 0 && errno != EINTR) return Read::kClosed;
    take_printed();
    if ((waited[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) {
      // The worker's end of the output may close before the other; do not spin on it.
      if ((waited[1].revents & POLLHUP) != 0) usleep(1000);
      continue;
    }
    const ssize_t count = ::read(answers_, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Read::kClosed;
    pending_.append(buffer.data(), static_cast<size_t>(count));
  }
}

std::string WorkerProcess::finish() {
  if (pid_ < 0) return "ended";
  int status = 0;
  // One whose end is closed is dying or leaving on its own, and is given a second to show
  // how; whatever still runs, and whatever it started, is killed.
  pollfd closed = {answers_, POLLIN, 0};
  const bool ending = poll(&closed, 1, 0) == 1 && (closed.revents & POLLHUP) != 0;
  for (int i = 0; ending && i < 1000 && !has_ended(pid_); ++i) {
    usleep(1000);
  }
  if (waitpid(pid_, &status, WNOHANG) != pid_) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, &status, 0);
  } else {
    kill(-pid_, SIGKILL);
  }
  pid_ = -1;
  take_printed();
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace keel::conformance
