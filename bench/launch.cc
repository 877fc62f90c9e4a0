// SPDX-License-Identifier: Apache-2.0
#include "bench/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace keel::bench {

namespace {

using Clock = std::chrono::steady_clock;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(left, 0));
}

// Reads both pipes until their writers have closed them. Returns false at the deadline.
bool read_all(Pipe& output, Pipe& errors, Launch& launch, Clock::time_point end) {
  std::pair<Descriptor*, std::string*> sources[] = {{&output.read, &launch.output},
                                                    {&errors.read, &launch.errors}};
  while (output.read.number() >= 0 || errors.read.number() >= 0) {
    pollfd waited[2] = {{output.read.number(), POLLIN, 0}, {errors.read.number(), POLLIN, 0}};
    if (poll(waited, 2, milliseconds_until(end)) == 0) return false;
    for (int i = 0; i < 2; ++i) {
      if (waited[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t got = read(waited[i].fd, buffer, sizeof(buffer));
      if (got > 0) sources[i].second->append(buffer, static_cast<size_t>(got));
      if (got == 0 || (got < 0 && errno != EINTR)) sources[i].first->close();
    }
  }
  return true;
}

// Returns whether |child| ended in time; if so sets |*status|.
bool wait_for(pid_t child, int* status, Clock::time_point end) {
  while (true) {
    if (waitpid(child, status, WNOHANG) == child) return true;
    if (Clock::now() >= end) return false;
    usleep(1000);
  }
}

}  // namespace

Launch launch(const std::vector<std::string>& command, std::chrono::milliseconds deadline) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  const Clock::time_point end = Clock::now() + deadline;
  const pid_t child = fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child == 0) {
    setpgid(0, 0);
    // Launchers forward their input, and would be stopped when reading from a terminal.
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(output.write.number(), 1);
    dup2(errors.write.number(), 2);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  setpgid(child, child);  // parent and child both call it: no race
  output.write.close();
  errors.write.close();

  Launch result;
  int status = 0;
  if (!read_all(output, errors, result, end) || !wait_for(child, &status, end)) {
    kill(-child, SIGKILL);
    waitpid(child, &status, 0);
    result.failure = "killed after " + std::to_string(deadline.count() / 1000) + " s";
  } else if (WIFSIGNALED(status)) {
    result.failure = "ended by signal " + std::to_string(WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0) {
    result.failure = "exit code " + std::to_string(WEXITSTATUS(status));
  }
  return result;
}

}  // namespace keel::bench
