// SPDX-License-Identifier: Apache-2.0
// `keel conform perf`: how fast a plugin is, beside roofs of the same run.
#ifndef KEEL_CONFORMANCE_PERF_COMMAND_H_
#define KEEL_CONFORMANCE_PERF_COMMAND_H_

namespace CLI {
class App;
}

namespace keel::conformance {

// Adds "perf" to |conform|. Sets |*exit_code|, which outlives parsing: 0, 1 where a call fails or
// there is no device, 2 where the command makes no sense. No figure makes it fail.
void add_perf_command(CLI::App& conform, int* exit_code);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_COMMAND_H_
