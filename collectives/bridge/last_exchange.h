// SPDX-License-Identifier: Apache-2.0
// How the last operation of a rank went, what it was to take, and what it took.
#ifndef KEEL_COLLECTIVES_BRIDGE_LAST_EXCHANGE_H_
#define KEEL_COLLECTIVES_BRIDGE_LAST_EXCHANGE_H_

#include <keel/keel.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "collectives/bridge/exchange_plan.h"

namespace keel {

// Which way an operation went.
struct ExchangeWay {
  const char* algorithm = "direct";  // a string that is always there
  uint64_t rounds = 1;               // or steps, where the algorithm has them
  uint64_t round_bytes = 0;
  bool is_native = false;  // by the library of islands; what is between them has a lane
  bool is_staged = false;  // by some rank
  bool is_planned = false;
  bool is_summed_on_device = false;
};

struct Exchange {
  keel_collective collective = KEEL_BARRIER;
  uint64_t bytes = 0;  // of the rank's larger buffer
  ExchangeWay way;
  ExchangePlan plan;  // where it is planned
  std::vector<Leg> legs;
  uint64_t leg_out_bytes = 0;  // of this rank
  uint64_t leg_in_bytes = 0;
  double seconds = 0;  // from when all ranks had called
};

// Written by the rank's thread, read by others. Thread-safe.
class LastExchange {
 public:
  // Allocates nothing once it was written for as many ranks.
  void write(const Exchange& exchange) {
    const std::lock_guard lock(mutex_);
    exchange_ = exchange;
    is_there_ = true;
  }
  // False: there was none yet.
  bool read(Exchange* out_exchange) const {
    const std::lock_guard lock(mutex_);
    if (is_there_) *out_exchange = exchange_;
    return is_there_;
  }

 private:
  mutable std::mutex mutex_;
  Exchange exchange_;
  bool is_there_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_LAST_EXCHANGE_H_
