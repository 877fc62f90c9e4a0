// SPDX-License-Identifier: Apache-2.0
// Statistics of a rank's last operation: path taken, predicted time and measured time.
#ifndef KEEL_COLLECTIVES_BRIDGE_OPERATION_STATISTICS_H_
#define KEEL_COLLECTIVES_BRIDGE_OPERATION_STATISTICS_H_

#include <keel/keel.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "collectives/bridge/chunk_plan.h"

namespace keel {

// The path that an operation took.
struct OperationPath {
  const char* algorithm = "direct";  // static string
  uint64_t rounds = 1;               // or steps, for stepped algorithms
  uint64_t round_bytes = 0;
  bool is_native = false;  // by the islands' native library; lanes report the rest
  bool is_staged = false;  // by at least one rank
  bool is_planned = false;
  bool is_summed_on_device = false;
};

struct OperationStatistics {
  keel_collective collective = KEEL_BARRIER;
  uint64_t bytes = 0;  // of the rank's larger buffer
  OperationPath way;
  ChunkPlan plan;  // valid if way.is_planned
  std::vector<HostLink> links;
  std::vector<LinkTraffic> traffic;  // of the links, if the host reduces
  uint64_t link_out_bytes = 0;       // this rank's traffic
  uint64_t link_in_bytes = 0;
  double seconds = 0;  // since all ranks had called
};

// Written by the rank's thread, read by any thread. Thread-safe.
class LastOperation {
 public:
  // Allocates nothing after the first write for the same number of ranks.
  void write(const OperationStatistics& exchange) {
    const std::lock_guard lock(mutex_);
    exchange_ = exchange;
    is_there_ = true;
  }
  // Returns false before the first write.
  bool read(OperationStatistics* out_exchange) const {
    const std::lock_guard lock(mutex_);
    if (is_there_) *out_exchange = exchange_;
    return is_there_;
  }

 private:
  mutable std::mutex mutex_;
  OperationStatistics exchange_;
  bool is_there_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_OPERATION_STATISTICS_H_
