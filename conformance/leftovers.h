// SPDX-License-Identifier: Apache-2.0
// Processes that a plugin has left behind: the last of a run are ended before its files are
// written, since they could change them afterwards.
#ifndef KEEL_CONFORMANCE_LEFTOVERS_H_
#define KEEL_CONFORMANCE_LEFTOVERS_H_

#include <string>
#include <vector>

namespace keel::conformance {

// From now on a process whose parents have ended is this one's child, also one in a session of its
// own (PR_SET_CHILD_SUBREAPER).
void adopt_leftovers();
// Kills all that is left below this process, and what these start meanwhile; the names of those
// that were there. No worker may be running.
std::vector<std::string> end_leftovers();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LEFTOVERS_H_
