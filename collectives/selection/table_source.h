// SPDX-License-Identifier: Apache-2.0
// Where a process has its table of algorithms from.
#ifndef KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_
#define KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_

#include <string>
#include <vector>

#include "collectives/selection/selection.h"
#include "core/status.h"

namespace keel {

// The rules that this process would have a communicator go by, and who says so.
struct TableSource {
  std::vector<Rule> rules;
  std::string name = "built-in";  // or the file; and "KEEL_ALGORITHM=ring"
};

// In this order, each where it is set or there:
//   KEEL_COLLECTIVE_TABLE   a file; "builtin": none, not even the one that follows
//   measured_table_path()   what `keel perf --tune` has measured on this machine
// and KEEL_ALGORITHM before all, which has one algorithm do whatever it can do. Asked for each
// new communicator. KEEL_INVALID_ARGUMENT or KEEL_NOT_FOUND names the variable, the file and
// its line; a measured table that cannot be read is a warning,
// once per process, file and fault.
Status load_table(TableSource* out_source);

// $XDG_CACHE_HOME/keel/collectives-KEY.table, or below ~/.cache; empty where the user has
// neither. KEY stands for the processor and the number of its cores.
std::string measured_table_path();

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_TABLE_SOURCE_H_
