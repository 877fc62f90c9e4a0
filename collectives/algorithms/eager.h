// SPDX-License-Identifier: Apache-2.0
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

// The host's addresses of a request's buffers.
struct EagerBuffers {
  const void* send = nullptr;
  void* receive = nullptr;
  uint64_t send_bytes = 0;
  uint64_t receive_bytes = 0;
};

// In two steps, on memory that the host reaches: the |bytes| at |source| become the data of post
// |sequence|, and |result| the rank's own once all have posted.
void fill_eager(RankContext& context, const Request& request, uint64_t sequence, const void* source,
                uint64_t bytes);
void compute_eager(RankContext& context, const Request& request, uint64_t sequence, void* result);

// The same for all buffers, and for those who watch.
Status write_eager(RankContext& context, const Request& request, uint64_t sequence,
                   const Side& send, Patience& patience);
Status finish_eager(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& receive, Patience& patience);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_
