// SPDX-License-Identifier: Apache-2.0
// Runs a program until the program ends or a deadline passes.
#ifndef KEEL_BENCH_LAUNCH_H_
#define KEEL_BENCH_LAUNCH_H_

#include <chrono>
#include <string>
#include <vector>

namespace keel::bench {

struct Launch {
  std::string output;  // standard output
  std::string errors;  // standard error
  // Empty after exit with 0; else "exit code 1", "killed after 120 s" or "cannot be started: No
  // such file or directory".
  std::string failure;
};

// |command| is the program, as a path or a name in PATH, and its arguments. The program runs in a
// separate process group; the whole group is killed at the deadline.
Launch launch(const std::vector<std::string>& command, std::chrono::milliseconds deadline);

}  // namespace keel::bench

#endif  // KEEL_BENCH_LAUNCH_H_
