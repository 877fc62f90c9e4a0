// SPDX-License-Identifier: Apache-2.0
// A barrier that names the ranks that are missing.
#ifndef FRAMEWORKS_TORCH_SRC_MONITORED_BARRIER_H_
#define FRAMEWORKS_TORCH_SRC_MONITORED_BARRIER_H_

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace keel_torch {

// Blocks until all |world| ranks have called with the same |key|, at most |timeout|. Rank 0 then
// throws c10::DistBackendError with the first missing rank, or all of them if |wait_all_ranks|; the
// other ranks throw that rank 0 did not answer. Goes through the store alone, so the group stays
// usable, where a collective that misses its deadline ends the communicator. Analogue: Gloo's
// monitoredBarrier.
void run_monitored_barrier(c10d::Store& store, const std::string& key, int rank, int world,
                           std::chrono::milliseconds timeout, bool wait_all_ranks);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_MONITORED_BARRIER_H_
