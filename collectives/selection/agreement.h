// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a communicator agree on one algorithm table.
#ifndef KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_
#define KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_

#include <string>

#include "collectives/selection/selection.h"
#include "collectives/selection/table_source.h"
#include "collectives/team.h"
#include "core/json_writer.h"
#include "core/status.h"

namespace keel {

// Builds the selection key of |team|; the same on all ranks.
SelectionKey selection_key_of(Team& team);

// Called by rank 0 before the first barrier: resolves |table| and writes the selection to |team|'s
// segment.
Status propose_selection(Team& team, const TableSource& table, Selection* out_selection);
// Called after that barrier: reads and validates rank 0's selection, which all ranks use; an error
// names rank 0. Logs a warning if |rank|'s own |table| resolves to another selection.
Status accept_selection(Team& team, uint32_t rank, const TableSource& table,
                        Selection* out_selection);

// Writes members of the open JSON object, for explain(). |name|: name of the rank's own table.
void explain_selection(Team& team, const Selection& selection, const std::string& name,
                       JsonWriter& json);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_
