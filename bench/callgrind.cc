// SPDX-License-Identifier: Apache-2.0
#include "bench/callgrind.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
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

double cost_above(std::istream& profile, const std::string& caller, const std::string& callee) {
  double cost = 0;
  bool left_out = false;  // the next cost is that of a call to leave out
  bool is_call = false;   // or of another call, whose instructions have lines of their own
  std::string object;
  std::string called;
  std::string line;
  while (std::getline(profile, line)) {
    const size_t equals = line.find('=');
    const std::string_view key = std::string_view(line).substr(0, equals);
    if (key == "ob") {
      object = line.substr(equals + 1);
    } else if (key == "cob") {
      called = line.substr(equals + 1);
    } else if (key == "calls") {
      is_call = true;
      // An object that is not named is the caller's.
      left_out =
          object.find(caller) != std::string::npos && called.find(callee) != std::string::npos;
      called.clear();
    } else if (!line.empty() && line[0] >= '0' && line[0] <= '9') {
      const double here = std::strtod(line.c_str() + line.find(' '), nullptr);
      if (left_out) cost -= here;
      if (!is_call) cost += here;
      is_call = left_out = false;
    }
  }
  return cost;
}

bool has_callgrind() {
  return count_instructions("true") > 0;
}

double instructions_of_call(const std::string& command) {
  constexpr int kCalls = 20'000;
  const double once = count_instructions(fmt::format("{} {}", command, kCalls));
  const double twice = count_instructions(fmt::format("{} {}", command, 2 * kCalls));
  return (twice - once) / kCalls;
}

double instructions_above(const std::string& command, const std::vector<std::string>& functions,
                          const std::string& caller, const std::string& callee) {
  constexpr int kCalls = 2000;
  const std::string profile =
      std::filesystem::temp_directory_path() / fmt::format("keel-callgrind-{}", getpid());
  std::string options = "--compress-strings=no --compress-pos=no --callgrind-out-file=" + profile;
  for (const std::string& function : functions) options += " --toggle-collect=" + function;
  const auto count = [&](int calls) {
    ProcessOptions process;
    process.command = {
        "sh", "-c",
        fmt::format("exec valgrind --tool=callgrind {} {} {}", options, command, calls)};
    process.output = ProcessOptions::Stream::kPiped;
    process.errors = ProcessOptions::Stream::kAsOutput;
    const ProgramResult result = run_program(process, std::chrono::hours(1));
    std::ifstream counted(profile);
    const double cost = cost_above(counted, caller, callee);
    std::filesystem::remove(profile);
    if (!result.succeeded() || cost <= 0) {
      throw std::runtime_error(fmt::format("{}: {}\n{}", command, result.failure(), result.output));
    }
    return cost;
  };
  const double once = count(kCalls);
  return (count(2 * kCalls) - once) / kCalls;
}

}  // namespace keel::bench
