// SPDX-License-Identifier: Apache-2.0
// Runs cases in this process, for debugging a plugin: output appears at once, and a debugger stops
// in the plugin's code.
#ifndef KEEL_CONFORMANCE_HERE_H_
#define KEEL_CONFORMANCE_HERE_H_

#include <string>
#include <vector>

#include "conformance/runner.h"

namespace keel::conformance {

// Runs |ids|, with |fail_fast| up to the first failure, prints each outcome and returns the
// program's exit status: kExitOk if all cases ran and none failed. A process loads a plugin once,
// so either cases through Keel or cases on the tables run: the kind of the first id wins, and the
// ids of the other kind are counted. Without ids the plugin is loaded, and no case runs: for a
// plugin with which no worker starts.
// |fault|: see Case; cases with another one are left out as well.
int run_here(const RunSettings& settings, const std::vector<std::string>& ids, bool fail_fast,
             const std::string& fault);
// Starts gdb on this program with |arguments|, which include --gdb. Returns only on failure.
int start_debugger(const std::vector<std::string>& arguments);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_HERE_H_
