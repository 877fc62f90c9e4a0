// SPDX-License-Identifier: Apache-2.0
// All_reduce of medium size: every rank computes the whole result.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_
#define KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Reads the buffers of all ranks in place and writes no data for peers: two synchronisations
// instead of the three of DirectAlgorithm, and no cache line written and read by two ranks in
// turns, most of the time of a small operation (two ranks, 64 KiB: 2 us instead of 6). Reads world
// times as much, so only up to some size. All ranks reduce in rank order, so all results have the
// same bits.
// Source: the one-shot all-reduce of TensorRT-LLM, with direct reads.

// Whether one-shot is chosen and possible: not with a staged buffer on any rank, nor if a rank's
// result overwrites data still to be read by peers. Call after all ranks have published; equal on
// all ranks.
bool can_one_shot(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive);
Status run_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& send, const Side& receive, WaitContext& wait_context);

// Variant for data of remote processes, to be copied before the reduction: each rank copies the
// data of all peers, and reduces when all ranks have copied, so results may overwrite data. Copies
// from clean cache lines and needs no bounce buffers with lines changing cores twice: 64 KiB of two
// ranks take 7 us instead of 13.

// Whether |request| may use this variant, once the ranks may read each other's processes.
bool may_copy_one_shot(const RankContext& context, const Request& request);
// Whether |request| uses this variant: some rank has published an address. Call after all ranks
// have published; equal on all ranks.
bool does_copy_one_shot(RankContext& context, const Request& request, uint64_t sequence);
// Staged data of a rank lies completely in its first chunk.
Status run_copying_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                            const Side& send, const Side& receive, WaitContext& wait_context);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_ONE_SHOT_H_
