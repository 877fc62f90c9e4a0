// SPDX-License-Identifier: Apache-2.0
// `keel perf`: measures and verifies collectives.
#ifndef KEEL_TOOLS_PERF_PERF_H_
#define KEEL_TOOLS_PERF_PERF_H_

namespace CLI {
class App;
}

namespace keel::cli {

// |*exit_code| becomes 1 after a wrong result, or the exit code of a failed process.
void add_perf_command(CLI::App& app, int* exit_code);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_H_
