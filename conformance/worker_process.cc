// SPDX-License-Identifier: Apache-2.0
#include "conformance/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "base/ipc/poll.h"
#include "base/ipc/socket.h"
#include "core/validation/call_notes.h"

namespace keel::conformance {

namespace {

constexpr size_t kPrintedBytes = 4096;
// Reads per gather_printed(): twice what a pipe holds. A plugin that prints without end never
// leaves the pipe empty, and must not keep the runner from its deadline.
constexpr int kMostReads = 32;
constexpr int kNotesDescriptor = 4;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

// Creates a memory file that holds |text|, positioned at its start.
FileDescriptor make_input(const std::string& text) {
  FileDescriptor fd(memfd_create("keel-conform-request", MFD_CLOEXEC));
  if (!fd) fail(errno, "memfd_create");
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(fd.get(), 0, SEEK_SET) != 0) {
    fail(errno, "writing the worker's request");
  }
  return fd;
}

// A memory file of empty lines for the validation layer (core/validation/call_notes.h).
constexpr size_t kNotes = 64;
FileDescriptor make_notes() {
  FileDescriptor fd(memfd_create("keel-conform-calls", MFD_CLOEXEC));
  if (!fd) fail(errno, "memfd_create");
  if (ftruncate(fd.get(), kNotes * validation::kCallNoteBytes) != 0) fail(errno, "ftruncate");
  return fd;
}

}  // namespace

WorkerProcess::WorkerProcess(const WorkerRequest& request)
    : reader_(request.token), packet_(kPacketBytes) {
  const FileDescriptor input = make_input(to_text(request));
  // A packet socket: whatever a plugin writes to the socket cannot corrupt other packets.
  FileDescriptor their_answers;
  if (const int error = sockets::open_pair(SOCK_SEQPACKET, &answers_, &their_answers)) {
    fail(error, "socketpair");
  }
  ProcessOptions options;
  options.program = "/proc/self/exe";
  options.command = {"keel", kWorkerCommand};
  options.output = ProcessOptions::Stream::kPiped;
  options.errors = ProcessOptions::Stream::kAsOutput;
  options.descriptors = {{input.get(), STDIN_FILENO}, {their_answers.get(), kAnswerDescriptor}};
  options.has_own_group = true;  // one group to kill
  if (request.traced) {
    notes_ = make_notes();
    options.descriptors.push_back({notes_.get(), kNotesDescriptor});
    options.environment = {"KEEL_VALIDATE*", "KEEL_VALIDATE=1",
                           fmt::format("KEEL_VALIDATE_CALLS=/proc/self/fd/{}", kNotesDescriptor)};
  }
  if (const int error = process_.start(options)) fail(error, "posix_spawn of a worker");
  fcntl(process_.output().get(), F_SETFL, O_NONBLOCK);
}

WorkerProcess::~WorkerProcess() {
  finish();
}

std::string WorkerProcess::calls_in_progress() const {
  std::string text;
  std::array<char, validation::kCallNoteBytes> line;
  for (size_t i = 0; notes_ && i < kNotes; ++i) {
    const auto offset = static_cast<off_t>(i * validation::kCallNoteBytes);
    if (pread(notes_.get(), line.data(), line.size(), offset) != static_cast<ssize_t>(line.size()))
      break;
    line.back() = '\0';
    if (line[0] != '\0') text += (text.empty() ? "" : "\n") + std::string(line.data());
  }
  return text;
}

void WorkerProcess::gather_printed() {
  std::array<char, 4096> buffer;
  for (int i = 0; i < kMostReads; ++i) {
    const ssize_t count = ::read(process_.output().get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    printed_.append(buffer.data(), static_cast<size_t>(count));
    if (printed_.size() > kPrintedBytes) printed_.erase(0, printed_.size() - kPrintedBytes);
  }
}

void WorkerProcess::drop_printed_before(const std::string& id) {
  gather_printed();
  const std::string mark = case_mark(id);
  const size_t found = printed_.find(mark);
  // Without the mark, the case has printed more than is kept.
  if (found != std::string::npos) printed_.erase(0, found + mark.size());
}

// The worker may be in the next case already.
std::string WorkerProcess::take_printed() {
  gather_printed();
  const size_t end = printed_.find(kCaseMark);
  std::string taken = printed_.substr(0, end);
  printed_.erase(0, taken.size());
  return taken;
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
  const ssize_t count =
      sockets::receive(answers_.get(), packet_.data(), packet_.size(), MSG_DONTWAIT);
  if (count <= 0) return false;
  reader_.take(std::span(packet_).first(static_cast<size_t>(count)), &messages_);
  return true;
}

WorkerProcess::Read WorkerProcess::read(Clock::time_point deadline, WorkerAnswer* out_answer) {
  while (true) {
    if (take_answer(out_answer)) return Read::kAnswer;
    if (Clock::now() > deadline) return Read::kTimedOut;
    pollfd waited[2] = {{answers_.get(), POLLIN, 0}, {process_.output().get(), POLLIN, 0}};
    if (poll_until(waited, deadline) < 0) return Read::kClosed;
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
  if (!process_.is_running()) return "ended";
  // A worker that has closed its end is crashing or exiting, and gets one second for its exit
  // status. Then the worker and all processes of its group are killed.
  pollfd closed = {answers_.get(), POLLIN, 0};
  const bool ending =
      poll_until({&closed, 1}, Clock::now()) == 1 && (closed.revents & POLLHUP) != 0;
  for (int i = 0; ending && i < 1000 && !process_.has_ended(); ++i) usleep(1000);
  const ProcessEnd end = process_.kill_and_wait();
  gather_printed();
  if (end.signal != 0) {
    return fmt::format("killed by signal {} ({})", end.signal, strsignal(end.signal));
  }
  return fmt::format("exited with status {}", end.exit_code);
}

}  // namespace keel::conformance
