// SPDX-License-Identifier: Apache-2.0
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

// The same where some rank's data has to be copied from another process before it can be added
// up: each rank copies that of all others, and adds when all have, so that results may also take
// the place of data. Copies from clean cache lines and needs no windows, whose lines change cores
// twice: 64 KiB of two ranks take 7 us instead of 13.

// Whether |request| may go that way, once the ranks may read each other's processes.
bool may_copy_one_shot(const RankContext& context, const Request& request);
// Whether it does: some rank has posted an address. Once all have posted; the same on all ranks.
bool does_copy_one_shot(RankContext& context, const Request& request, uint64_t sequence);
// What is staged of a rank's data is all in its first window.
Status run_copying_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                            const Side& send, const Side& receive, Patience& patience);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_
