// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/testing/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>
#include <utility>

namespace keel::testing {

namespace {

constexpr int kTestTimeoutMs = 60'000;

std::string read_line_of(int fd) {
  std::string line;
  char each = 0;
  while (true) {
    pollfd poll_fd = {fd, POLLIN, 0};
    if (poll(&poll_fd, 1, kTestTimeoutMs) <= 0 || read(fd, &each, 1) != 1 || each == '\n')
      return line;
    line += each;
  }
}

}  // namespace

ChildProcess::ChildProcess(const std::string& worker, const std::vector<std::string>& arguments) {
  int in[2];
  int out[2];
  EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
  EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
  const FileDescriptor child_in(in[0]);
  const FileDescriptor child_out(out[1]);
  input_ = FileDescriptor(in[1]);
  output_ = FileDescriptor(out[0]);
  std::vector<std::string> all = {"worker", "--worker", worker};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : all) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), STDOUT_FILENO);
  EXPECT_EQ(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)) {}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string ChildProcess::read_line() {
  return read_line_of(output_.get());
}

void ChildProcess::write_line(const std::string& line) {
  const std::string text = line + '\n';
  EXPECT_EQ(write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void ChildProcess::kill() {
  ::kill(pid_, SIGKILL);
}

int ChildProcess::wait() {
  for (int waited = 0; waited < kTestTimeoutMs; ++waited) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return -1;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string hear() {
  return read_line_of(STDIN_FILENO);
}

}  // namespace keel::testing

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc >= 3 && arguments[1] == "--worker") {
    const auto found = keel::testing::workers().find(arguments[2]);
    if (found == keel::testing::workers().end()) return 127;
    return found->second({arguments.begin() + 3, arguments.end()});
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
