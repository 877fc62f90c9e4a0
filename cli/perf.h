// SPDX-License-Identifier: Apache-2.0
// `keel perf`: how fast collectives are, and whether they are right.
#ifndef KEEL_CLI_PERF_H_
#define KEEL_CLI_PERF_H_

namespace CLI {
class App;
}

namespace keel::cli {

// |*exit_code| gets 1 where a result was wrong, and what a process exited with.
void add_perf_command(CLI::App& app, int* exit_code);

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_H_
