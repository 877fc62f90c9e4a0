// SPDX-License-Identifier: Apache-2.0
// How the ranks of a communicator make smaller ones of it.
#ifndef KEEL_COLLECTIVES_SPLIT_H_
#define KEEL_COLLECTIVES_SPLIT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/rank_context.h"
#include "collectives/team.h"
#include "core/status.h"

namespace keel {

// The ranks of one color, by their ranks before, in their new order.
struct Part {
  std::vector<uint32_t> ranks;
  std::vector<uint32_t> flags;  // what each says of itself there, of Team::kOfACommunicator
};

// Every rank calls, on the thread that runs its operations. Those of one |color| become a team
// in the order of |key|, then of their ranks here; |*out_team| stays empty for KEEL_NO_COLOR.
// |flags|: what this rank says of itself there, of Team::kOfACommunicator. The first of a team
// makes its segment, the others fetch it. |*out_parts|, where they are wanted: all of them, the
// same on all ranks; none where one of them has failed.
Status split_team(RankContext& context, int32_t color, int32_t key, uint32_t flags,
                  Patience& patience, std::shared_ptr<Team>* out_team, uint32_t* out_rank,
                  std::vector<Part>* out_parts = nullptr);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SPLIT_H_
