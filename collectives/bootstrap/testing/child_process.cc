// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/testing/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/ipc/poll.h"

namespace keel::testing {

namespace {

constexpr std::chrono::seconds kTestTimeout{60};

std::string read_line_of(int fd) {
  std::string line;
  char each = 0;
  while (true) {
    if (poll_until(fd, POLLIN, Process::Clock::now() + kTestTimeout) <= 0 ||
        read(fd, &each, 1) != 1 || each == '\n') {
      return line;
    }
    line += each;
  }
}

}  // namespace

ChildProcess::ChildProcess(const std::string& worker, const std::vector<std::string>& arguments) {
  ProcessOptions options;
  options.program = "/proc/self/exe";
  options.command = {"worker", "--worker", worker};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.input = options.output = ProcessOptions::Stream::kPiped;
  EXPECT_EQ(process_.start(options), 0);
}

std::string ChildProcess::read_line() {
  return read_line_of(process_.output().get());
}

void ChildProcess::write_line(const std::string& line) {
  const std::string text = line + '\n';
  EXPECT_EQ(write(process_.input().get(), text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
}

void ChildProcess::kill() {
  process_.kill(SIGKILL);
}

int ChildProcess::wait() {
  const auto end = process_.wait_for(kTestTimeout);
  return end ? end->shell_code() : -1;
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
