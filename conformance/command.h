// SPDX-License-Identifier: Apache-2.0
// `keel conform run|list|verify`, for the command line program.
#ifndef KEEL_CONFORMANCE_COMMAND_H_
#define KEEL_CONFORMANCE_COMMAND_H_

namespace CLI {
class App;
}

namespace keel::conformance {

// Adds "conform" and the hidden commands of its child processes to |app|. Each command sets
// |*exit_code|, which must outlive parsing: 0 success, 1 a failure, 2 invalid usage.
void add_conform_command(CLI::App& app, int* exit_code);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COMMAND_H_
