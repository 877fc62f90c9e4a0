// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator come to choose by the same table.
#ifndef KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_
#define KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_

#include <string>

#include "collectives/selection/selection.h"
#include "collectives/selection/table_source.h"
#include "collectives/team.h"
#include "core/status.h"

namespace keel {

// The same for all ranks of |team|.
Surroundings surroundings_of(Team& team);

// Puts what |table| comes to in |team|'s segment: rank 0, before the first barrier.
Status propose_selection(Team& team, const TableSource& table, Selection* out_selection);
// What is there after the barrier can be used; else it names rank 0. All go by it: where
// |rank|'s own |table| comes to something else, a warning says so.
Status accept_selection(Team& team, uint32_t rank, const TableSource& table,
                        Selection* out_selection);

// For explain(): members of a JSON object. |name|: of the rank's own table.
std::string explain_selection(Team& team, const Selection& selection, const std::string& name);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_AGREEMENT_H_
