// SPDX-License-Identifier: Apache-2.0
// Runs the built keel command for tests, as a user does.
#ifndef KEEL_CLI_TESTING_KEEL_COMMAND_H_
#define KEEL_CLI_TESTING_KEEL_COMMAND_H_

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace keel::cli::testing {

struct Result {
  int exit_code = -1;  // -1: it was killed
  std::string out;
  std::string error;
};

// $KEEL_TEST_BIN/keel with |arguments|, and the environment with |changes| ("NAME=VALUE") in
// it. Waited for, and killed if that has not been done, when this ends.
class KeelCommand {
 public:
  explicit KeelCommand(std::vector<std::string> arguments, std::vector<std::string> changes = {});
  ~KeelCommand();
  KeelCommand(const KeelCommand&) = delete;
  KeelCommand& operator=(const KeelCommand&) = delete;

  pid_t pid() const { return pid_; }
  // What it has written so far.
  std::string out() const;
  // Until |part| has been written to its output, 60 s at most; false then.
  bool wait_for_output(const std::string& part) const;
  Result wait();

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  File out_;
  File error_;
  pid_t pid_ = 0;
};

// The same, to its end.
Result keel(std::vector<std::string> arguments, std::vector<std::string> changes = {});

bool contains(const std::string& text, const std::string& part);
std::vector<std::string> lines(const std::string& text);

}  // namespace keel::cli::testing

#endif  // KEEL_CLI_TESTING_KEEL_COMMAND_H_
