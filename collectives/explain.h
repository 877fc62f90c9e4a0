// SPDX-License-Identifier: Apache-2.0
// How a communicator goes about its operations, for people and programs.
#ifndef KEEL_COLLECTIVES_EXPLAIN_H_
#define KEEL_COLLECTIVES_EXPLAIN_H_

#include <cstdint>
#include <string>

#include "collectives/rank_context.h"
#include "collectives/selection/selection.h"

namespace keel {

// As JSON (docs/collectives.md): ranks, the islands they form, the sizes and algorithms in use, and
// what the rank's last operation was to take and took. Any thread may ask while the rank runs
// operations. |native|: JSON of the islands with a native library. |lane|: of the rank's lane
// between them; NULL where it has none.
std::string explain_communicator(RankContext& context, int64_t timeout_ns,
                                 const Selection& selection, const std::string& table_name,
                                 const std::string& native, const LastExchange* lane);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_EXPLAIN_H_
