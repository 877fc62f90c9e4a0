// SPDX-License-Identifier: Apache-2.0
#include "bench/callgrind.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

#include "base/ipc/process.h"

namespace keel::bench {

namespace {

// Returns the instructions of a run of |command|; 0 without valgrind.
double count_instructions(const std::string& command) {
  ProcessOptions options;
  options.command = {"sh", "-c",
                     "valgrind --tool=callgrind --callgrind-out-file=/dev/null " + command};
  options.output = ProcessOptions::Stream::kPiped;
  options.errors = ProcessOptions::Stream::kAsOutput;
  const ProgramResult result = run_program(options, std::chrono::hours(1));
  if (result.start_error != 0) throw std::runtime_error("no process can be started");
  double collected = 0;
  constexpr std::string_view kCollected = "Collected : ";
  const size_t at = result.output.rfind(kCollected);
  if (at != std::string::npos) {
    collected = std::strtod(result.output.c_str() + at + kCollected.size(), nullptr);
  }
  return collected;
}

}  // namespace

bool has_callgrind() {
  return count_instructions("true") > 0;
}

double instructions_of_call(const std::string& command) {
  constexpr int kCalls = 20'000;
  const double once = count_instructions(fmt::format("{} {}", command, kCalls));
  const double twice = count_instructions(fmt::format("{} {}", command, 2 * kCalls));
  return (twice - once) / kCalls;
}

}  // namespace keel::bench
