// SPDX-License-Identifier: Apache-2.0
// Reports how a communicator runs its operations, for people and programs.
#ifndef KEEL_COLLECTIVES_EXPLAIN_H_
#define KEEL_COLLECTIVES_EXPLAIN_H_

#include <cstdint>
#include <string>

#include "collectives/hierarchical/hierarchical_plan.h"
#include "collectives/rank_context.h"
#include "collectives/selection/selection.h"
#include "core/json_writer.h"

namespace keel {

// Writes a JSON object (docs/collectives.md): ranks and islands, the sizes and algorithms in use,
// and the predicted and measured time of the rank's last operation. Thread-safe while the rank runs
// operations. |native|: the islands with a native library. |lane|: last operation of the rank's
// lane between islands; NULL if the rank has no lane.
void explain_communicator(RankContext& context, int64_t timeout_ns, const Selection& selection,
                          const std::string& table_name, const HierarchicalPlan& native,
                          const LastOperation* lane, JsonWriter& json);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_EXPLAIN_H_
