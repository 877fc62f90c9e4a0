// SPDX-License-Identifier: Apache-2.0
// Starts a program and waits for its end: the launcher of commands, conformance, benchmarks and
// tests.
#ifndef KEEL_BASE_IPC_PROCESS_H_
#define KEEL_BASE_IPC_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/ipc/file_descriptor.h"

namespace keel {

// How a process ended.
struct ProcessEnd {
  int exit_code = 0;
  int signal = 0;  // 0: exited

  bool succeeded() const { return exit_code == 0 && signal == 0; }
  // The exit code, or 128 + signal, as a shell reports it.
  int shell_code() const { return signal != 0 ? 128 + signal : exit_code; }
};

// A program, its arguments, environment and descriptors. The process inherits every descriptor of
// the caller that is not close-on-exec.
struct ProcessOptions {
  enum class Stream {
    kInherited,
    kNull,     // /dev/null
    kPiped,    // to or from Process::input(), output() or errors()
    kAsOutput  // for errors: the same file as the standard output
  };
  // Makes |from|, a descriptor of the caller, descriptor |to| of the process.
  struct Descriptor {
    int from;
    int to;
  };

  // Program and arguments. A name without a slash is looked up in PATH.
  std::vector<std::string> command;
  // The file to start if not command[0], such as "/proc/self/exe".
  std::string program;
  // Changes to the caller's environment, in order: "NAME=VALUE" sets a variable, "NAME" removes a
  // variable, "NAME*" removes all variables that begin with NAME.
  std::vector<std::string> environment;
  Stream input = Stream::kInherited;
  Stream output = Stream::kInherited;
  Stream errors = Stream::kInherited;
  std::vector<Descriptor> descriptors;  // applied after the three streams
  std::vector<int> closed;              // numbers closed in the process
  // The process leads a new group, and kill() reaches every process of the group.
  bool has_own_group = false;
};

// Owns at most one process. The destructor kills and reaps a process without a wait(). Not
// thread-safe.
class Process {
 public:
  using Clock = std::chrono::steady_clock;

  Process() = default;
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Starts a process. Returns 0, or the errno of the failed call (ENOENT: no such program); the
  // object then has no process. The object must have no process before the call.
  [[nodiscard]] int start(const ProcessOptions& options);

  // True from start() to the return of a wait.
  bool is_running() const { return pid_ > 0; }
  // The process id, or -1 without a process. An ended process keeps its id until a wait returns.
  pid_t pid() const { return pid_; }

  // The caller's ends of piped streams, close-on-exec and blocking; empty for other streams.
  FileDescriptor& input() { return input_; }
  FileDescriptor& output() { return output_; }
  FileDescriptor& errors() { return errors_; }

  // Sends |signal| to the process, or to the process's own group. No effect without a process.
  void kill(int signal) const;
  // Returns whether the process has ended, without reaping. True without a process.
  bool has_ended() const;
  // Blocks until the process ends, and reaps the process. There must be a process. The rest of the
  // process's own group keeps running.
  ProcessEnd wait();
  // As wait(), but returns nothing if the process still runs at |deadline|. Parks in the kernel; on
  // kernels before 5.3 (no pidfd_open) polls every millisecond.
  std::optional<ProcessEnd> wait_until(Clock::time_point deadline);
  template <typename Rep, typename Period>
  std::optional<ProcessEnd> wait_for(std::chrono::duration<Rep, Period> time) {
    return wait_until(Clock::now() + std::chrono::duration_cast<Clock::duration>(time));
  }
  // Kills the process or the process's own group, and reaps. There must be a process.
  ProcessEnd kill_and_wait();

  // Appends the piped output and errors, until every writer has closed both pipes. Returns false if
  // a pipe is still open at |deadline|.
  bool read_all(Clock::time_point deadline, std::string* out_output, std::string* out_errors);

 private:
  ProcessEnd reap();

  pid_t pid_ = -1;
  bool has_own_group_ = false;
  FileDescriptor pidfd_;  // none on old kernels
  FileDescriptor input_;
  FileDescriptor output_;
  FileDescriptor errors_;
};

// The result of run_program().
struct ProgramResult {
  int start_error = 0;     // errno if the program was not started
  bool timed_out = false;  // killed at the deadline
  ProcessEnd end;
  std::string output;  // from the piped streams
  std::string errors;

  bool succeeded() const { return start_error == 0 && !timed_out && end.succeeded(); }
  // Empty after success; else "exit code 1", "ended by signal 11", "timed out" or "cannot be
  // started: No such file or directory".
  std::string failure() const;
};

// Runs a program to its end. After |timeout| the program, or the program's own group, is killed.
ProgramResult run_program(const ProcessOptions& options, Process::Clock::duration timeout);

}  // namespace keel

#endif  // KEEL_BASE_IPC_PROCESS_H_
