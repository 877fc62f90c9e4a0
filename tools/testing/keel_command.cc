// SPDX-License-Identifier: Apache-2.0
#include "tools/testing/keel_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  ProcessOptions options;
  options.command = std::move(arguments);
  options.command.insert(options.command.begin(), program);
  options.environment = std::move(changes);
  options.descriptors = {{fileno(out_.get()), STDOUT_FILENO},
                         {fileno(error_.get()), STDERR_FILENO}};
  EXPECT_EQ(process_.start(options), 0) << program;
}

std::string KeelCommand::out() const {
  return content(out_.get());
}

bool KeelCommand::wait_for_output(const std::string& part) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!contains(out(), part)) {
    if (!process_.is_running() || std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

Result KeelCommand::wait() {
  Result result;
  if (process_.is_running()) {
    const ProcessEnd end = process_.wait();
    if (end.signal == 0) result.exit_code = end.exit_code;
  }
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
