// SPDX-License-Identifier: Apache-2.0
#include "tools/local_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "core/core_share.h"

namespace keel::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kCannotStart = 127;

[[noreturn]] void throw_errno(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;

  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
    read = FileDescriptor(ends[0]);
    write = FileDescriptor(ends[1]);
  }
};

// Copies the lines of one process, with a prefix, to stdout or stderr.
class LabelledOutput {
 public:
  LabelledOutput(FileDescriptor from, std::FILE* to, uint32_t rank)
      : from_(std::move(from)), to_(to), label_(fmt::format("[{}] ", rank)) {}

  int fd() const { return from_.get(); }
  // Reads the available output. At end of file, finishes the last line.
  void read_some() {
    std::array<char, 65536> block;
    const ssize_t got = ::read(from_.get(), block.data(), block.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) {
      if (!rest_.empty()) write_lines("\n");
      from_ = FileDescriptor();
      return;
    }
    write_lines({block.data(), static_cast<size_t>(got)});
  }

 private:
  void write_lines(std::string_view text) {
    std::string out;
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      out += label_ + rest_;
      out += text.substr(0, end + 1);
      rest_.clear();
      text.remove_prefix(end + 1);
    }
    rest_ += text;
    std::fwrite(out.data(), 1, out.size(), to_);
    std::fflush(to_);
  }

  FileDescriptor from_;
  std::FILE* to_;
  std::string label_;
  std::string rest_;
};

// Blocks signals so that the job's loop reads them from a descriptor.
class Signals {
 public:
  Signals() {
    sigset_t mask;
    sigemptyset(&mask);
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&mask, each);
    if (sigprocmask(SIG_BLOCK, &mask, &before_) != 0) throw_errno("sigprocmask");
    fd_ = FileDescriptor(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) {
      sigprocmask(SIG_SETMASK, &before_, nullptr);
      throw_errno("signalfd");
    }
  }
  ~Signals() { restore(); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }
  void restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  // Returns the next pending signal; 0 if none.
  int next() const {
    signalfd_siginfo info;
    return ::read(fd_.get(), &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo)
                                                                  : 0;
  }

 private:
  sigset_t before_;
  FileDescriptor fd_;
};

std::string rendezvous_name() {
  std::array<unsigned char, 16> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw_errno("getrandom");
  }
  std::string name = "run-";
  for (const unsigned char byte : bytes) name += fmt::format("{:02x}", byte);
  return name;
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

class Job {
 public:
  explicit Job(const LocalJob& job) : job_(job), rendezvous_(rendezvous_name()) {}
  ~Job() {
    if (running_ > 0) signal_all(SIGKILL);
    for (const pid_t pid : pids_) {
      if (pid > 0) waitpid(pid, nullptr, 0);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    if (job_.timeout.count() > 0) deadline_ = Clock::now() + job_.timeout;
    for (uint32_t rank = 0; rank < job_.processes && !code_; ++rank) start(rank);
    while (running_ > 0) {
      wait_for_something();
      while (const int signal = signals_.next()) {
        if (signal != SIGCHLD) pass_on(signal);
      }
      reap();
      look_at_clock();
    }
    for (LabelledOutput& each : outputs_) {
      // Reads the remaining output. Processes that left their group may keep the pipe open.
      while (each.fd() >= 0 && has_input(each.fd())) each.read_some();
    }
    return code_.value_or(has_succeeded_ ? 0 : lost_code_.value_or(0));
  }

 private:
  // Runs in the child. The parent had one thread at the fork, so allocation is safe.
  [[noreturn]] void become(uint32_t rank, pid_t parent, int out, int error, int failed) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kCannotStart);
    signals_.restore();
    if (job_.hosts) become_remote(rank, out, error, failed);
    if (job_.bind) bind(rank);
    const std::string world = std::to_string(job_.processes);
    setenv("KEEL_RANK", std::to_string(rank).c_str(), 1);
    setenv("KEEL_WORLD", world.c_str(), 1);
    setenv("KEEL_LOCAL_RANK", std::to_string(rank).c_str(), 1);
    setenv("KEEL_LOCAL_WORLD", world.c_str(), 1);
    setenv("KEEL_BOOTSTRAP", rendezvous_.c_str(), 1);
    // A terminal stops a background process group that reads from it.
    if (rank != 0 || isatty(STDIN_FILENO)) {
      const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    }
    execute(job_.command, out, error, failed);
  }

  // The process starts the program on its host, and hands over the secret as standard input.
  [[noreturn]] void become_remote(uint32_t rank, int out, int error, int failed) {
    Pipe secret;
    const std::string line = job_.hosts->secret + "\n";
    if (write(secret.write.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
        dup2(secret.read.get(), STDIN_FILENO) < 0) {
      _exit(kCannotStart);
    }
    execute(launch_command(*job_.hosts, rank, rendezvous_, job_.command), out, error, failed);
  }

  [[noreturn]] static void execute(const std::vector<std::string>& command, int out, int error,
                                   int failed) {
    if (out >= 0) dup2(out, STDOUT_FILENO);
    if (error >= 0) dup2(error, STDERR_FILENO);
    std::vector<char*> arguments;
    for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.data()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int reason = errno;
    const ssize_t told = write(failed, &reason, sizeof(reason));
    _exit(told == sizeof(reason) ? kCannotStart : kCannotStart - 1);
  }

  // If binding is forbidden, the process keeps its cores.
  void bind(uint32_t rank) const {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
    const cpu_set_t share = core_share(usable, rank, job_.processes);
    (void)sched_setaffinity(0, sizeof(share), &share);
  }

  void start(uint32_t rank) {
    Pipe failed;
    std::optional<Pipe> out;
    std::optional<Pipe> error;
    if (job_.label) {
      out.emplace();
      error.emplace();
    }
    std::fflush(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) throw_errno("fork");
    if (pid == 0) {
      become(rank, parent, out ? out->write.get() : -1, error ? error->write.get() : -1,
             failed.write.get());
    }
    setpgid(pid, pid);  // parent and child both call it: no race
    pids_.push_back(pid);
    ++running_;
    if (out) {
      outputs_.emplace_back(std::move(out->read), stdout, rank);
      outputs_.emplace_back(std::move(error->read), stderr, rank);
    }
    failed.write = FileDescriptor();
    int reason = 0;
    if (read(failed.read.get(), &reason, sizeof(reason)) == sizeof(reason)) {
      fail(kCannotStart,
           fmt::format("'{}' cannot be started: {}", program(rank), std::strerror(reason)));
    }
  }

  std::string program(uint32_t rank) const {
    if (!job_.hosts) return job_.command[0];
    return launch_command(*job_.hosts, rank, rendezvous_, job_.command)[0];
  }

  static bool has_input(int fd) {
    pollfd entry = {fd, POLLIN, 0};
    return poll(&entry, 1, 0) == 1;
  }

  void wait_for_something() {
    std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
    std::vector<size_t> of;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].fd() < 0) continue;
      entries.push_back({outputs_[i].fd(), POLLIN, 0});
      of.push_back(i);
    }
    // At most a second, so that a lost signal causes no hang.
    int64_t wait_ms = 1000;
    for (const auto& end : {deadline_, kill_at_}) {
      if (!end) continue;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now());
      wait_ms = std::clamp<int64_t>(left.count(), 0, wait_ms);
    }
    if (poll(entries.data(), entries.size(), static_cast<int>(wait_ms)) <= 0) return;
    for (size_t i = 0; i < of.size(); ++i) {
      if (entries[i + 1].revents != 0) outputs_[of[i]].read_some();
    }
  }

  void pass_on(int signal) {
    signal_all(signalled_ ? SIGKILL : signal);
    signalled_ = true;
  }

  void signal_all(int signal) const {
    for (const pid_t pid : pids_) {
      if (pid > 0) kill(-pid, signal);
    }
  }

  // Ends the job on the first failure.
  void fail(int code, const std::string& text) {
    if (code_) return;
    code_ = code;
    std::fprintf(stderr, "keel: %s\n", text.c_str());
    deadline_.reset();
    signal_all(SIGTERM);
    kill_at_ = Clock::now() + job_.grace;
  }

  // A process has failed.
  void lose(int code, const std::string& text) {
    if (!job_.keep_going || code_) return fail(code, text);
    std::fprintf(stderr, "keel: %s\n", text.c_str());
    if (!lost_code_) lost_code_ = code;
  }

  void reap() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      const pid_t pid = pids_[rank];
      siginfo_t info = {};
      if (pid == 0 ||
          waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0) {
        continue;
      }
      // Before waitpid frees the number, which is also the group's, for reuse.
      kill(-pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      pids_[rank] = 0;
      --running_;
      if (info.si_code != CLD_EXITED) {
        lose(128 + info.si_status, fmt::format("rank {} (process {}) was killed by {}{}", rank, pid,
                                               signal_text(info.si_status),
                                               info.si_code == CLD_DUMPED ? ", core dumped" : ""));
      } else if (info.si_status != 0) {
        lose(info.si_status,
             fmt::format("rank {} (process {}) exited with code {}", rank, pid, info.si_status));
      } else {
        has_succeeded_ = true;
      }
    }
  }

  void look_at_clock() {
    const auto now = Clock::now();
    if (deadline_ && now >= *deadline_) {
      std::vector<size_t> ranks;
      for (size_t rank = 0; rank < pids_.size(); ++rank) {
        if (pids_[rank] > 0) ranks.push_back(rank);
      }
      fail(kTimedOutCode, fmt::format("not done after {} s: rank{} {}",
                                      static_cast<double>(job_.timeout.count()) / 1000,
                                      ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", ")));
    }
    if (kill_at_ && now >= *kill_at_) {
      signal_all(SIGKILL);
      kill_at_ = now + job_.grace;
    }
  }

  const LocalJob& job_;
  const std::string rendezvous_;
  Signals signals_;
  std::vector<pid_t> pids_;  // by rank; 0: ended
  uint32_t running_ = 0;
  std::vector<LabelledOutput> outputs_;
  bool signalled_ = false;
  bool has_succeeded_ = false;    // a process
  std::optional<int> lost_code_;  // of the first process that failed and did not end the job
  std::optional<int> code_;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> kill_at_;
};

}  // namespace

int run_local_job(const LocalJob& job) {
  return Job(job).run();
}

}  // namespace keel::cli
