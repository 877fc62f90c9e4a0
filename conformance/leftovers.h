// SPDX-License-Identifier: Apache-2.0
// Processes left behind by a plugin. The runner kills all leftovers at the end of a run, before
// writing its files, because a surviving process could change the files afterwards.
#ifndef KEEL_CONFORMANCE_LEFTOVERS_H_
#define KEEL_CONFORMANCE_LEFTOVERS_H_

#include <string>
#include <vector>

namespace keel::conformance {

// Makes this process the subreaper of all descendants (PR_SET_CHILD_SUBREAPER): from now on an
// orphaned descendant, even in a separate session, becomes a child of this process.
class Leftovers {
 public:
  Leftovers();
  // Kills the descendants on every way out of a run, also on one without a report.
  ~Leftovers() { end(); }
  Leftovers(const Leftovers&) = delete;
  Leftovers& operator=(const Leftovers&) = delete;

  // Kills all remaining descendants of this process, including those started meanwhile, and returns
  // the names of the killed processes. Call it only while no worker runs.
  std::vector<std::string> end();
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_LEFTOVERS_H_
