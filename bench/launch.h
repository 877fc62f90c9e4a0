// SPDX-License-Identifier: Apache-2.0
// Runs a program to its end, and no longer than it may take.
#ifndef KEEL_BENCH_LAUNCH_H_
#define KEEL_BENCH_LAUNCH_H_

#include <chrono>
#include <string>
#include <vector>

namespace keel::bench {

struct Launch {
  std::string output;   // standard output
  std::string errors;   // standard error
  std::string failure;  // empty: it ended with 0; else "exit code 1", "killed after 120 s"
};

// |command|: the program, by path or in PATH, and its arguments. It has a process group of
// its own, all of which is killed at the deadline. Throws std::system_error when nothing can
// be started.
Launch launch(const std::vector<std::string>& command, std::chrono::milliseconds deadline);

}  // namespace keel::bench

#endif  // KEEL_BENCH_LAUNCH_H_
