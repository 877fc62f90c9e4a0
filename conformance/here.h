// SPDX-License-Identifier: Apache-2.0
// Runs cases in this process, for debugging a plugin: output appears at once, and a debugger stops
// in the plugin's code.
#ifndef KEEL_CONFORMANCE_HERE_H_
#define KEEL_CONFORMANCE_HERE_H_

#include <string>
#include <vector>

#include "conformance/runner.h"

namespace keel::conformance {

// Runs |ids|, prints each outcome and returns the program's exit status. A process loads a plugin
// once, so either cases through Keel or cases on the tables run: the kind of the first id wins, and
// the ids of the other kind are listed.
int run_here(const RunSettings& settings, const std::vector<std::string>& ids);
// Starts gdb on this program with |arguments|, which include --gdb. Returns only on failure.
int start_debugger(const std::vector<std::string>& arguments);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_HERE_H_
