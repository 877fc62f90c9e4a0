// SPDX-License-Identifier: Apache-2.0
// Times a contestant: every operation and size of the options, each the fastest way it has.
#ifndef KEEL_BENCH_PEERS_TRIAL_H_
#define KEEL_BENCH_PEERS_TRIAL_H_

#include "bench/peers/contestant.h"
#include "bench/peers/options.h"

namespace keel::bench::peers {

// Every rank calls; rank 0 prints the lines (measurement.h). Buffers are allocated once, at
// the largest size, and touched. Each way is checked, then tried for an eighth of
// |options.seconds|, unless it is slow beyond hope; the fastest one is timed and checked again.
void run_cases(Contestant& contestant, const Options& options);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_TRIAL_H_
