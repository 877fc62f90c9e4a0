// SPDX-License-Identifier: Apache-2.0
// `keel conform perf`: measures the performance of a plugin against roofs of the same run.
#ifndef KEEL_CONFORMANCE_PERF_COMMAND_H_
#define KEEL_CONFORMANCE_PERF_COMMAND_H_

namespace CLI {
class App;
}

namespace keel::conformance {

// Adds "perf" to |conform|. Sets |*exit_code|, which must outlive parsing: 0 success, 1 if a call
// fails or there is no device, 2 invalid usage. A low figure is not a failure.
void add_perf_command(CLI::App& conform, int* exit_code);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_COMMAND_H_
