// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

namespace keel {
namespace {

using Stream = ProcessOptions::Stream;

constexpr std::chrono::seconds kLong{60};

ProcessOptions shell(const std::string& script) {
  ProcessOptions options;
  options.command = {"sh", "-c", script};
  return options;
}

ProcessOptions piped(const std::string& script) {
  ProcessOptions options = shell(script);
  options.output = options.errors = Stream::kPiped;
  return options;
}

std::string read_line(int fd) {
  std::string line;
  char each = 0;
  while (read(fd, &each, 1) == 1 && each != '\n') line += each;
  return line;
}

// Whether process |pid| ends within a minute; a zombie of another parent counts as ended.
bool ends(pid_t pid) {
  const auto deadline = Process::Clock::now() + kLong;
  while (Process::Clock::now() < deadline) {
    const std::string path = "/proc/" + std::to_string(pid) + "/stat";
    const FileDescriptor stat(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!stat) return true;
    char text[256] = {};
    if (read(stat.get(), text, sizeof(text) - 1) <= 0) return true;
    if (std::string(text).find(") Z ") != std::string::npos) return true;
    usleep(1000);
  }
  return false;
}

TEST(ProcessTest, OutputAndErrorsAreCaptured) {
  const ProgramResult result = run_program(piped("echo out; echo err >&2"), kLong);
  EXPECT_TRUE(result.succeeded()) << result.failure();
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.failure(), "");
}

TEST(ProcessTest, ErrorsMayGoWhereTheOutputGoes) {
  ProcessOptions options = piped("echo out; echo err >&2");
  options.errors = Stream::kAsOutput;
  EXPECT_EQ(run_program(options, kLong).output, "out\nerr\n");
}

// More than a pipe holds, on both streams at once.
TEST(ProcessTest, LargeOutputOfBothStreamsIsCaptured) {
  const ProgramResult result = run_program(
      piped("i=0; while [ $i -lt 3000 ]; do echo $i a line of output; echo $i errors >&2; "
            "i=$((i+1)); done"),
      kLong);
  EXPECT_TRUE(result.succeeded()) << result.failure();
  EXPECT_TRUE(result.output.ends_with("2999 a line of output\n"));
  EXPECT_TRUE(result.errors.ends_with("2999 errors\n"));
}

TEST(ProcessTest, EndIsReported) {
  const ProgramResult code = run_program(shell("exit 3"), kLong);
  EXPECT_EQ(code.end.exit_code, 3);
  EXPECT_EQ(code.end.shell_code(), 3);
  EXPECT_EQ(code.failure(), "exit code 3");
  const ProgramResult signal = run_program(shell("kill -9 $$"), kLong);
  EXPECT_EQ(signal.end.signal, SIGKILL);
  EXPECT_EQ(signal.end.shell_code(), 128 + SIGKILL);
  EXPECT_EQ(signal.failure(), "ended by signal 9");
  EXPECT_FALSE(signal.succeeded());
}

TEST(ProcessTest, MissingProgramIsAnError) {
  ProcessOptions options;
  options.command = {"/no/such/program"};
  Process process;
  EXPECT_EQ(process.start(options), ENOENT);
  EXPECT_FALSE(process.is_running());
  EXPECT_EQ(run_program(options, kLong).failure(), "cannot be started: No such file or directory");
}

TEST(ProcessTest, EnvironmentIsChanged) {
  ASSERT_EQ(setenv("KEEL_IPC_TEST_KEPT", "kept", 1), 0);
  ASSERT_EQ(setenv("KEEL_IPC_TEST_SET", "before", 1), 0);
  ASSERT_EQ(setenv("KEEL_IPC_TEST_GONE", "1", 1), 0);
  ASSERT_EQ(setenv("KEEL_IPC_PREFIX_A", "1", 1), 0);
  ASSERT_EQ(setenv("KEEL_IPC_PREFIX_B", "1", 1), 0);
  ProcessOptions options = piped(
      "echo $KEEL_IPC_TEST_KEPT,$KEEL_IPC_TEST_SET,${KEEL_IPC_TEST_GONE-none},"
      "${KEEL_IPC_PREFIX_A-none},$KEEL_IPC_PREFIX_B");
  options.environment = {"KEEL_IPC_TEST_SET=after", "KEEL_IPC_TEST_GONE", "KEEL_IPC_PREFIX_*",
                         "KEEL_IPC_PREFIX_B=new"};
  EXPECT_EQ(run_program(options, kLong).output, "kept,after,none,none,new\n");
}

TEST(ProcessTest, InputIsPipedOrEmpty) {
  ProcessOptions options = piped("read line; echo \"<$line>\"");
  options.input = Stream::kPiped;
  Process process;
  ASSERT_EQ(process.start(options), 0);
  ASSERT_EQ(write(process.input().get(), "hello\n", 6), 6);
  EXPECT_EQ(read_line(process.output().get()), "<hello>");
  EXPECT_TRUE(process.wait().succeeded());
  options.input = Stream::kNull;
  EXPECT_EQ(run_program(options, kLong).output, "<>\n");
}

// Targets are the numbers of other sources: each must arrive all the same.
TEST(ProcessTest, DescriptorsMayTradePlaces) {
  int first[2];
  int second[2];
  ASSERT_EQ(pipe2(first, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(second, O_CLOEXEC), 0);
  const FileDescriptor ends[] = {FileDescriptor(first[0]), FileDescriptor(first[1]),
                                 FileDescriptor(second[0]), FileDescriptor(second[1])};
  const std::string a = std::to_string(first[1]);
  const std::string b = std::to_string(second[1]);
  ProcessOptions options;
  options.command = {"bash", "-c", "echo one >&" + a + "; echo two >&" + b};
  options.descriptors = {{second[1], first[1]}, {first[1], second[1]}};
  const ProgramResult result = run_program(options, kLong);
  ASSERT_TRUE(result.succeeded()) << result.failure();
  EXPECT_EQ(read_line(first[0]), "two");
  EXPECT_EQ(read_line(second[0]), "one");
}

TEST(ProcessTest, ClosedDescriptorDoesNotArrive) {
  const FileDescriptor inherited(open("/dev/null", O_RDONLY));  // not close-on-exec
  ProcessOptions options =
      piped("[ -e /proc/self/fd/" + std::to_string(inherited.get()) + " ] && echo open");
  EXPECT_EQ(run_program(options, kLong).output, "open\n");
  options.closed = {inherited.get()};
  EXPECT_EQ(run_program(options, kLong).output, "");
}

TEST(ProcessTest, WaitEndsAtItsDeadline) {
  ProcessOptions options = shell("read line");
  options.input = Stream::kPiped;
  Process process;
  ASSERT_EQ(process.start(options), 0);
  EXPECT_FALSE(process.has_ended());
  EXPECT_FALSE(process.wait_for(std::chrono::milliseconds(20)));
  EXPECT_TRUE(process.is_running());
  process.input() = FileDescriptor();
  const auto end = process.wait_for(kLong);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->exit_code, 1);
  EXPECT_FALSE(process.is_running());
  EXPECT_TRUE(process.has_ended());
}

TEST(ProcessTest, DeadlineKillsTheWholeGroup) {
  ProcessOptions options = piped("sleep 300 & echo $!; wait");
  options.has_own_group = true;
  const ProgramResult result = run_program(options, std::chrono::seconds(2));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.end.signal, SIGKILL);
  EXPECT_EQ(result.failure(), "timed out");
  // A loaded machine may reach the deadline before the shell has printed.
  if (result.output.empty()) GTEST_SKIP() << "the shell was not scheduled for two seconds";
  EXPECT_TRUE(ends(static_cast<pid_t>(std::stol(result.output))));
}

TEST(ProcessTest, DestructorKillsAndReaps) {
  pid_t pid = -1;
  {
    Process process;
    // Without exec, a shell that is killed late leaves its child behind.
    ASSERT_EQ(process.start(shell("exec sleep 300")), 0);
    pid = process.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
    const Process moved(std::move(process));
    EXPECT_EQ(moved.pid(), pid);
    EXPECT_EQ(process.pid(), -1);  // NOLINT(bugprone-use-after-move): the contract of a move
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

}  // namespace
}  // namespace keel
