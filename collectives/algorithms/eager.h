// Small operations: the data travels with the posts.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_
#define KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// One-shot: each rank copies what it sends into its post, and computes its whole result
// from everybody's posts once all have come. One synchronisation instead of three, world
// times the reading: for messages that are shorter than a synchronisation. All ranks take
// the same steps on the same data in the same order, so all hold the same bits.
// Source: the one-shot all-reduce of TensorRT-LLM and of MPICH's shared-memory collectives.

// The most that travels with the posts where a rank's buffers are staged.
inline constexpr uint64_t kStagedEagerBytes = 4096;

// The most bytes that a rank may send for it.
uint64_t most_eager_bytes(const RankContext& context, keel_collective collective);
// Whether the operation is small enough: the same on all ranks that agree on the call.
bool is_eager(const RankContext& context, const Request& request);

// For buffers that the host reaches, in two steps: the data of post |sequence|, and the rank's
// own result once all have posted.
void copy_eager(RankContext& context, const Request& request, uint64_t sequence, const Side& send);
void compute_eager(RankContext& context, const Request& request, uint64_t sequence,
                   const Side& receive);

// The same for all buffers.
Status write_eager(RankContext& context, const Request& request, uint64_t sequence,
                   const Side& send, Patience& patience);
Status finish_eager(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& receive, Patience& patience);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_
