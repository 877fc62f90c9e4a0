// SPDX-License-Identifier: Apache-2.0
// Cases in this very process, for whoever looks for a fault: what the plugin prints is seen at
// once, and a debugger stops in it.
#ifndef KEEL_CONFORMANCE_HERE_H_
#define KEEL_CONFORMANCE_HERE_H_

#include <string>
#include <vector>

#include "conformance/runner.h"

namespace keel::conformance {

// Runs |ids| and prints what comes of each; the exit status of the program. A plugin is loaded once
// in a process: of cases through Keel and cases on the tables the kind of the first is run, and the
// rest is named.
int run_here(const RunSettings& settings, const std::vector<std::string>& ids);
// Starts gdb on this program with |arguments|, --gdb among them. Returns only where that fails.
int start_debugger(const std::vector<std::string>& arguments);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_HERE_H_
