// SPDX-License-Identifier: Apache-2.0
// Processes that a plugin leaves behind. The runner kills them at the end of a run, before it
// writes its files, because a surviving process could change these files afterwards.
#ifndef KEEL_CONFORMANCE_LEFTOVERS_H_
#define KEEL_CONFORMANCE_LEFTOVERS_H_

#include <string>
#include <vector>

namespace keel::conformance {

// Makes this process the subreaper of its descendants (PR_SET_CHILD_SUBREAPER): from now on an
// orphaned descendant, even in a session of its own, becomes a child of this process.
void adopt_leftovers();
// Kills all remaining descendants of this process, including those started meanwhile, and returns
// the names of the killed processes. Call it only while no worker runs.
std::vector<std::string> end_leftovers();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LEFTOVERS_H_
