// All_reduce of medium size: every rank computes the whole result for itself.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_
#define KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Reads everybody's buffer where it is and writes nothing that another rank will read: two
// synchronisations instead of the three of DirectAlgorithm, and no cache line that two ranks
// write and read in turns, which is most of the time of a small one (two ranks, 64 KiB: 2 us
// instead of 6). World times the reading, so only up to some size. All ranks reduce in rank
// order, so all hold the same bits.
// Source: the one-shot all-reduce of TensorRT-LLM, with direct reads.

// Whether that is chosen and can be done: not where a rank's result takes the place of what the
// others have still to read. Once all have posted; the same on all ranks.
bool can_one_shot(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive);
Status run_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& send, const Side& receive, Patience& patience);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_
