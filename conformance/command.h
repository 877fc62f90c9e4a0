// SPDX-License-Identifier: Apache-2.0
// `keel conform run|list|verify`, for the command line program.
#ifndef KEEL_CONFORMANCE_COMMAND_H_
#define KEEL_CONFORMANCE_COMMAND_H_

namespace CLI {
class App;
}

namespace keel::conformance {

// Adds "conform" and the hidden command of its worker processes to |app|. Each sets
// |*exit_code|, which outlives parsing: 0 all is well, 1 something failed, 2 the command
// makes no sense.
void add_conform_command(CLI::App& app, int* exit_code);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_COMMAND_H_
