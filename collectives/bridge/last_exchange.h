// What the last operation of a rank that went in rounds was to take, and what it took.
#ifndef KEEL_COLLECTIVES_BRIDGE_LAST_EXCHANGE_H_
#define KEEL_COLLECTIVES_BRIDGE_LAST_EXCHANGE_H_

#include <keel/keel.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "collectives/bridge/exchange_plan.h"

namespace keel {

struct Exchange {
  keel_collective collective = KEEL_BARRIER;
  uint64_t bytes = 0;  // of the rank's larger buffer
  uint64_t rounds = 0;
  uint64_t round_bytes = 0;
  bool is_staged = false;  // by some rank: else |plan| and |legs| are none
  bool is_summed_on_device = false;
  ExchangePlan plan;
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
