// SPDX-License-Identifier: Apache-2.0
#include "bench/launch.h"

#include <utility>

#include "base/ipc/process.h"

namespace keel::bench {

Launch launch(const std::vector<std::string>& command, std::chrono::milliseconds deadline) {
  ProcessOptions options;
  options.command = command;
  // Launchers forward their input, and would be stopped when reading from a terminal.
  options.input = ProcessOptions::Stream::kNull;
  options.output = options.errors = ProcessOptions::Stream::kPiped;
  options.has_own_group = true;
  ProgramResult result = run_program(options, deadline);
  Launch launch;
  launch.failure = result.timed_out
                       ? "killed after " + std::to_string(deadline.count() / 1000) + " s"
                       : result.failure();
  launch.output = std::move(result.output);
  launch.errors = std::move(result.errors);
  return launch;
}

}  // namespace keel::bench
