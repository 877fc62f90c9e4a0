// SPDX-License-Identifier: Apache-2.0
// Small operations: the data travels in the operation descriptors.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_
#define KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// One-shot: each rank copies the data to send into the rank's descriptor, and computes the whole
// result from the descriptors of all ranks. One synchronisation instead of three, at world times
// the reading: for messages shorter than a synchronisation. All ranks take the same steps on the
// same data in the same order, so all results have the same bits.
// Source: the one-shot all-reduce of TensorRT-LLM and of MPICH's shared-memory collectives.

// Host addresses of a request's buffers.
struct EagerBuffers {
  const void* send = nullptr;
  void* receive = nullptr;
  uint64_t send_bytes = 0;
  uint64_t receive_bytes = 0;
};

// For memory reachable by the host. fill_eager() copies |bytes| at |source| into descriptor
// |sequence|; compute_eager() writes the rank's |result| once all ranks have published.
void fill_eager(RankContext& context, const Request& request, uint64_t sequence, const void* source,
                uint64_t bytes);
void compute_eager(RankContext& context, const Request& request, uint64_t sequence, void* result);

// Same for all buffers, with spans for observers.
Status write_eager(RankContext& context, const Request& request, uint64_t sequence,
                   const Side& send, WaitContext& wait_context);
Status finish_eager(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& receive, WaitContext& wait_context);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_EAGER_H_
