// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/validation/call_notes.h"

namespace keel::conformance {

namespace {

constexpr size_t kPrintedBytes = 4096;
constexpr int kNotesDescriptor = 4;

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

// A packet socket: whatever a plugin writes to the socket cannot corrupt other packets.
Pipe make_socket() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail(errno, "socketpair");
  return {ends[0], ends[1]};
}

// Creates a memory file that holds |text|, positioned at its start.
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

// A memory file of empty lines for the validation layer (core/validation/call_notes.h).
constexpr size_t kNotes = 64;
int make_notes() {
  const int fd = memfd_create("keel-conform-calls", MFD_CLOEXEC);
  if (fd < 0) fail(errno, "memfd_create");
  if (ftruncate(fd, kNotes * validation::kCallNoteBytes) != 0) {
    close(fd);
    fail(errno, "ftruncate");
  }
  return fd;
}

bool has_ended(pid_t pid) {
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerRequest& request)
    : reader_(request.token), packet_(kPacketBytes) {
  const int input = make_input(to_text(request));
  const Pipe answers = make_socket();
  const Pipe output = make_pipe();
  answers_ = answers.read_end;
  output_ = output.read_end;
  fcntl(output_, F_SETFL, O_NONBLOCK);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // The order matters: |input| may be kAnswerDescriptor, which is free once |input| is copied. A
  // posix_spawn dup2 of a descriptor onto itself clears close-on-exec.
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers.write_end, kAnswerDescriptor);
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.push_back(*variable);
  }
  std::string validate = "KEEL_VALIDATE=1";
  std::string calls = fmt::format("KEEL_VALIDATE_CALLS=/proc/self/fd/{}", kNotesDescriptor);
  if (request.traced) {
    notes_ = make_notes();
    posix_spawn_file_actions_adddup2(&actions, notes_, kNotesDescriptor);
    std::erase_if(environment, [](const char* variable) {
      return std::string_view(variable).starts_with("KEEL_VALIDATE");
    });
    environment.insert(environment.end(), {validate.data(), calls.data()});
  }
  environment.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // one group to kill
  std::string program = "keel";
  std::string command = kWorkerCommand;
  char* arguments[] = {program.data(), command.data(), nullptr};
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
  if (notes_ >= 0) close(notes_);
}

std::string WorkerProcess::calls_in_progress() const {
  std::string text;
  std::array<char, validation::kCallNoteBytes> line;
  for (size_t i = 0; notes_ >= 0 && i < kNotes; ++i) {
    const auto offset = static_cast<off_t>(i * validation::kCallNoteBytes);
    if (pread(notes_, line.data(), line.size(), offset) != static_cast<ssize_t>(line.size())) break;
    line.back() = '\0';
    if (line[0] != '\0') text += (text.empty() ? "" : "\n") + std::string(line.data());
  }
  return text;
}

void WorkerProcess::gather_printed() {
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t count = ::read(output_, buffer.data(), buffer.size());
    if (count <= 0) break;
    printed_.append(buffer.data(), static_cast<size_t>(count));
    if (printed_.size() > kPrintedBytes) printed_.erase(0, printed_.size() - kPrintedBytes);
  }
}

std::string WorkerProcess::take_printed() {
  gather_printed();
  return std::exchange(printed_, {});
}

// Takes the next answer from the received messages; returns false if there is none.
bool WorkerProcess::take_answer(WorkerAnswer* out_answer) {
  while (taken_ < messages_.size()) {
    PacketReader::Message& message = messages_[taken_++];
    if (message.observation) {
      out_answer->type = WorkerAnswer::Type::kObservation;
      out_answer->observation = std::move(*message.observation);
      return true;
    }
    if (from_text(message.answer, out_answer)) return true;
  }
  messages_.clear();
  taken_ = 0;
  return false;
}

// Receives one packet; returns false if there is none.
bool WorkerProcess::receive() {
  const ssize_t count = recv(answers_, packet_.data(), packet_.size(), MSG_DONTWAIT);
  if (count <= 0) return false;
  reader_.take(std::span(packet_).first(static_cast<size_t>(count)), &messages_);
  return true;
}

WorkerProcess::Read WorkerProcess::read(Clock::time_point deadline, WorkerAnswer* out_answer) {
  while (true) {
    if (take_answer(out_answer)) return Read::kAnswer;
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0) return Read::kTimedOut;
    pollfd waited[2] = {{answers_, POLLIN, 0}, {output_, POLLIN, 0}};
    if (poll(waited, 2, static_cast<int>(left) + 1) < 0 && errno != EINTR) return Read::kClosed;
    if ((waited[1].revents & POLLIN) != 0) gather_printed();
    if ((waited[0].revents & POLLIN) != 0) {
      // The end of the stream reads like a packet of 0 bytes.
      if (receive() || (waited[0].revents & POLLHUP) == 0) continue;
      return Read::kClosed;
    }
    if ((waited[0].revents & (POLLHUP | POLLERR)) != 0) return Read::kClosed;
    // The worker may close its output before its answers; avoid spinning on POLLHUP.
    if ((waited[1].revents & POLLHUP) != 0) usleep(1000);
  }
}

std::string WorkerProcess::finish() {
  if (pid_ < 0) return "ended";
  int status = 0;
  // A worker that has closed its end is crashing or exiting, and gets one second for its exit
  // status. Then the worker and all processes of its group are killed.
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
  gather_printed();
  if (WIFSIGNALED(status)) {
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  }
  return fmt::format("exited with status {}", WEXITSTATUS(status));
}

}  // namespace keel::conformance
