// SPDX-License-Identifier: Apache-2.0
#include "tools/testing/keel_command.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

namespace keel::cli::testing {
namespace {

std::string content(std::FILE* file) {
  std::string text;
  char block[4096];
  ssize_t got = 0;
  while ((got = pread(fileno(file), block, sizeof(block), static_cast<off_t>(text.size()))) > 0) {
    text.append(block, static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

KeelCommand::KeelCommand(std::vector<std::string> arguments, std::vector<std::string> changes)
    : out_(std::tmpfile(), std::fclose), error_(std::tmpfile(), std::fclose) {
  const char* folder = std::getenv("KEEL_TEST_BIN");
  const std::string program = std::string(folder == nullptr ? "." : folder) + "/keel";
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::vector<char*> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string entry(*each);
    const std::string name = entry.substr(0, entry.find('=') + 1);
    const bool changed = std::any_of(changes.begin(), changes.end(),
                                     [&](const auto& change) { return change.starts_with(name); });
    if (!changed) environment.push_back(*each);
  }
  for (std::string& change : changes) environment.push_back(change.data());
  environment.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(out_.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(error_.get()), STDERR_FILENO);
  const int failed =
      posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0) << program;
  if (failed != 0) pid_ = 0;
}

KeelCommand::~KeelCommand() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string KeelCommand::out() const {
  return content(out_.get());
}

bool KeelCommand::wait_for_output(const std::string& part) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!contains(out(), part)) {
    if (pid_ == 0 || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Result KeelCommand::wait() {
  Result result;
  int status = 0;
  if (pid_ != 0 && waitpid(pid_, &status, 0) == pid_ && WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  }
  pid_ = 0;
  result.out = content(out_.get());
  result.error = content(error_.get());
  return result;
}

Result keel(std::vector<std::string> arguments, std::vector<std::string> changes) {
  return KeelCommand(std::move(arguments), std::move(changes)).wait();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

}  // namespace keel::cli::testing
