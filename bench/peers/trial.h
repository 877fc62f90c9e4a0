// SPDX-License-Identifier: Apache-2.0
// Times a peer_contender: every operation and size of the options, each with its fastest algorithm.
#ifndef KEEL_BENCH_PEERS_TRIAL_H_
#define KEEL_BENCH_PEERS_TRIAL_H_

#include "bench/peers/options.h"
#include "bench/peers/peer_contender.h"

namespace keel::bench::peers {

// Every rank calls; rank 0 prints the lines (measurement.h). Buffers are allocated and touched
// once, at the largest size. Each algorithm is checked, then timed for an eighth of
// |options.seconds| unless it is hopelessly slow; the fastest algorithm is timed in full and
// checked again.
void run_cases(PeerContender& peer_contender, const Options& options);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_TRIAL_H_
