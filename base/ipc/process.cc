// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/ipc/poll.h"

extern char** environ;

namespace keel {

namespace {

using Clock = Process::Clock;
using Stream = ProcessOptions::Stream;

// The arguments of posix_spawn that have to be destroyed.
class SpawnArguments {
 public:
  SpawnArguments() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnArguments() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnArguments(const SpawnArguments&) = delete;
  SpawnArguments& operator=(const SpawnArguments&) = delete;

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// One of the three standard streams.
struct StreamEnds {
  FileDescriptor caller;
  FileDescriptor process;
};

// Returns errno. Fills |*out_ends| for kNull and kPiped.
int open_stream(Stream stream, bool is_input, StreamEnds* out_ends) {
  if (stream == Stream::kNull) {
    out_ends->process =
        FileDescriptor(open("/dev/null", (is_input ? O_RDONLY : O_WRONLY) | O_CLOEXEC));
    return out_ends->process ? 0 : errno;
  }
  if (stream != Stream::kPiped) return 0;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errno;
  out_ends->caller = FileDescriptor(ends[is_input ? 1 : 0]);
  out_ends->process = FileDescriptor(ends[is_input ? 0 : 1]);
  return 0;
}

// The caller's environment with |changes|, which the result refers to.
std::vector<char*> make_environment(const std::vector<std::string>& changes) {
  std::vector<char*> all;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) all.push_back(*each);
  for (const std::string& change : changes) {
    const size_t equals = change.find('=');
    const bool is_prefix = equals == std::string::npos && change.ends_with('*');
    const std::string name =
        is_prefix ? change.substr(0, change.size() - 1) : change.substr(0, equals) + '=';
    std::erase_if(all, [&](const char* each) { return std::string_view(each).starts_with(name); });
    if (equals != std::string::npos) all.push_back(const_cast<char*>(change.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

ProcessEnd end_of(int status) {
  if (WIFSIGNALED(status)) return {0, WTERMSIG(status)};
  return {WEXITSTATUS(status), 0};
}

}  // namespace

Process::~Process() {
  if (is_running()) kill_and_wait();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      has_own_group_(other.has_own_group_),
      pidfd_(std::move(other.pidfd_)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)) {}

Process& Process::operator=(Process&& other) noexcept {
  Process taken(std::move(other));
  std::swap(pid_, taken.pid_);
  std::swap(has_own_group_, taken.has_own_group_);
  std::swap(pidfd_, taken.pidfd_);
  std::swap(input_, taken.input_);
  std::swap(output_, taken.output_);
  std::swap(errors_, taken.errors_);
  return *this;
}

int Process::start(const ProcessOptions& options) {
  StreamEnds streams[3];
  const Stream kinds[3] = {options.input, options.output, options.errors};
  std::vector<ProcessOptions::Descriptor> descriptors;
  for (int i = 0; i < 3; ++i) {
    if (const int error = open_stream(kinds[i], i == STDIN_FILENO, &streams[i])) return error;
    if (streams[i].process) descriptors.push_back({streams[i].process.get(), i});
  }
  descriptors.insert(descriptors.end(), options.descriptors.begin(), options.descriptors.end());
  int last = STDERR_FILENO;
  for (const auto& each : descriptors) last = std::max(last, each.to);
  // The new process copies one descriptor after another. Copies above all targets cannot be
  // overwritten before they are copied themselves.
  std::vector<FileDescriptor> moved;
  SpawnArguments spawn;
  for (const auto& each : descriptors) {
    FileDescriptor above(fcntl(each.from, F_DUPFD_CLOEXEC, last + 1));
    if (!above) return errno;
    posix_spawn_file_actions_adddup2(&spawn.actions, above.get(), each.to);
    moved.push_back(std::move(above));
  }
  if (options.errors == Stream::kAsOutput) {
    posix_spawn_file_actions_adddup2(&spawn.actions, STDOUT_FILENO, STDERR_FILENO);
  }
  for (const int each : options.closed) posix_spawn_file_actions_addclose(&spawn.actions, each);
  if (options.has_own_group) {
    posix_spawnattr_setflags(&spawn.attributes, POSIX_SPAWN_SETPGROUP);
  }
  std::vector<char*> arguments;
  for (const std::string& word : options.command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  std::vector<char*> environment = make_environment(options.environment);
  const char* program = options.program.empty() ? arguments[0] : options.program.c_str();
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, program, &spawn.actions, &spawn.attributes, arguments.data(),
                                 environment.data());
  if (error != 0) return error;
  pid_ = pid;
  has_own_group_ = options.has_own_group;
  // The id cannot be reused before this process reaps the new one.
  pidfd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  input_ = std::move(streams[0].caller);
  output_ = std::move(streams[1].caller);
  errors_ = std::move(streams[2].caller);
  return 0;
}

void Process::kill(int signal) const {
  if (is_running()) ::kill(has_own_group_ ? -pid_ : pid_, signal);
}

bool Process::has_ended() const {
  if (!is_running()) return true;
  siginfo_t info = {};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == pid_;
}

ProcessEnd Process::reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  pidfd_ = FileDescriptor();
  return end_of(status);
}

ProcessEnd Process::wait() {
  return reap();
}

std::optional<ProcessEnd> Process::wait_until(Clock::time_point deadline) {
  while (!has_ended()) {
    if (Clock::now() >= deadline) return std::nullopt;
    if (pidfd_) {
      poll_until(pidfd_.get(), POLLIN, deadline);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return reap();
}

ProcessEnd Process::kill_and_wait() {
  kill(SIGKILL);
  return reap();
}

bool Process::read_all(Clock::time_point deadline, std::string* out_output,
                       std::string* out_errors) {
  const std::pair<FileDescriptor*, std::string*> sources[] = {{&output_, out_output},
                                                              {&errors_, out_errors}};
  while (output_ || errors_) {
    pollfd waited[2] = {{output_.get(), POLLIN, 0}, {errors_.get(), POLLIN, 0}};
    if (poll_until(waited, deadline) <= 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (waited[i].revents == 0) continue;
      char block[4096];
      const ssize_t got = read(waited[i].fd, block, sizeof(block));
      if (got > 0) sources[i].second->append(block, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) *sources[i].first = FileDescriptor();
    }
  }
  return true;
}

std::string ProgramResult::failure() const {
  if (start_error != 0) {
    return "cannot be started: " + std::generic_category().message(start_error);
  }
  if (timed_out) return "timed out";
  if (end.signal != 0) return "ended by signal " + std::to_string(end.signal);
  return end.exit_code == 0 ? "" : "exit code " + std::to_string(end.exit_code);
}

ProgramResult run_program(const ProcessOptions& options, Clock::duration timeout) {
  ProgramResult result;
  Process process;
  const Clock::time_point deadline = Clock::now() + timeout;
  result.start_error = process.start(options);
  if (result.start_error != 0) return result;
  process.input() = FileDescriptor();
  if (process.read_all(deadline, &result.output, &result.errors)) {
    if (const auto end = process.wait_until(deadline)) {
      result.end = *end;
      return result;
    }
  }
  result.timed_out = true;
  result.end = process.kill_and_wait();
  return result;
}

}  // namespace keel
