// SPDX-License-Identifier: Apache-2.0
// Runs the built keel command in tests, as a user does.
#ifndef KEEL_TOOLS_TESTING_KEEL_COMMAND_H_
#define KEEL_TOOLS_TESTING_KEEL_COMMAND_H_

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/ipc/process.h"

namespace keel::cli::testing {

struct Result {
  int exit_code = -1;  // -1: killed
  std::string out;
  std::string error;
};

// Runs $KEEL_TEST_BIN/keel with |arguments| and this process's environment with |changes|
// ("NAME=VALUE"). The destructor kills the process unless wait() was called, and reaps it.
class KeelCommand {
 public:
  explicit KeelCommand(std::vector<std::string> arguments, std::vector<std::string> changes = {});

  pid_t pid() const { return process_.pid(); }
  // Returns the output so far.
  std::string out() const;
  // Blocks until the output contains |part|; returns false after 60 s.
  bool wait_for_output(const std::string& part) const;
  Result wait();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  File out_;
  File error_;
  Process process_;
};

// Runs the command to its end.
Result keel(std::vector<std::string> arguments, std::vector<std::string> changes = {});

bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines(const std::string& text);

}  // namespace keel::cli::testing

#endif  // KEEL_TOOLS_TESTING_KEEL_COMMAND_H_
