// SPDX-License-Identifier: Apache-2.0
// Finds the algorithm table of a process.
#ifndef KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_
#define KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_

#include <optional>
#include <string>
#include <vector>

#include "collectives/hosts/lane_shares.h"
#include "collectives/selection/selection.h"
#include "core/status.h"

namespace keel {

// The rules that this process wants for a communicator, and where they come from.
struct TableSource {
  std::vector<Rule> rules;
  std::string name = "built-in";    // or the file, and "KEEL_ALGORITHM=ring"
  std::optional<Algorithm> forced;  // KEEL_ALGORITHM
  LaneShares lane_shares;           // KEEL_LANE_SHARES
};

// The first source that is set or exists:
//   KEEL_COLLECTIVE_TABLE   a file; "builtin" means none, not even the measured table
//   measured_table_path()   measured by `keel perf --tune` on this machine
// KEEL_ALGORITHM overrides both and forces one algorithm wherever it applies. Evaluated for each
// new communicator. KEEL_INVALID_ARGUMENT or KEEL_NOT_FOUND names the variable, the file and the
// line; an unreadable measured table causes a warning instead, once per process, file and fault.
Status load_table(TableSource* out_source);

// $XDG_CACHE_HOME/keel/collectives-KEY.table, or the same below ~/.cache; empty if the user has
// neither. KEY identifies the processor model and the number of cores.
std::string measured_table_path();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_
