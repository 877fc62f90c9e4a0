// SPDX-License-Identifier: Apache-2.0
#include "bench/callgrind.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

namespace keel::bench {

namespace {

// Returns the instructions of a run of |command|; 0 without valgrind.
double count_instructions(const std::string& command) {
  const std::string whole =
      "valgrind --tool=callgrind --callgrind-out-file=/dev/null " + command + " 2>&1";
  FILE* output = popen(whole.c_str(), "r");
  if (output == nullptr) throw std::runtime_error("no process can be started");
  double collected = 0;
  std::array<char, 256> line;
  while (std::fgets(line.data(), line.size(), output) != nullptr) {
    const std::string text = line.data();
    const size_t at = text.find("Collected : ");
    if (at != std::string::npos) collected = std::strtod(text.c_str() + at + 12, nullptr);
  }
  pclose(output);
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
