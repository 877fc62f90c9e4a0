// SPDX-License-Identifier: Apache-2.0
// Splits the ranks of a communicator into smaller communicators.
#ifndef KEEL_COLLECTIVES_SPLIT_H_
#define KEEL_COLLECTIVES_SPLIT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/rank_context.h"
#include "collectives/team.h"
#include "core/status.h"

namespace keel {

// The ranks of one color: their ranks in the parent, in the new order.
struct Part {
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> flags;  // per rank in the part: bits of Team::kOfACommunicator
};

// Called by every rank, on the thread for the rank's operations. The ranks of one |color| become a
// team in the order of |key|, then of the ranks in the parent; |*out_team| stays empty for
// KEEL_NO_COLOR. |flags|: the rank's bits of Team::kOfACommunicator in the part. The first rank of
// a team makes the segment; the rest fetch it. |*out_parts|, if not NULL: all parts, the same on
// all ranks; empty if a rank has failed.
Status split_team(RankContext& context, int32_t color, int32_t key, uint32_t flags,
                  WaitContext& wait_context, std::shared_ptr<Team>* out_team, uint32_t* out_rank,
                  std::vector<Part>* out_parts = nullptr);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SPLIT_H_
