// SPDX-License-Identifier: Apache-2.0
// Who goes first: the urgent communicators of this process, which all others give way to.
#ifndef KEEL_COLLECTIVES_URGENT_TRAFFIC_H_
#define KEEL_COLLECTIVES_URGENT_TRAFFIC_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/transports/control_segment.h"

namespace keel {

// An urgent operation is under way from when all ranks have called it until all are done with
// it. Before, nobody gives way to it: it may wait for a rank whose own next step is part of
// a normal operation. So what is waited for here waits for nobody who waits here. Its
// segment tells, and hence holds back the normal operations of all its processes as soon as
// one rank has seen the match, also where the others' threads still wait for a core.
// Thread-safe.
class UrgentTraffic {
 public:
  static UrgentTraffic& get();

  void add(std::shared_ptr<ControlSegment> segment);
  void remove(const ControlSegment& segment);

  // Whether there is an urgent communicator.
  bool is_possible() const { return count_.load(std::memory_order_relaxed) != 0; }
  // Waits while an urgent operation is under way, or for kMostNs, since nobody may be kept
  // from going on for good. Returns whether there was one.
  bool give_way();

 private:
  // Some ten times what the next round of a large operation takes: that is the share of the
  // machine that endless urgent traffic leaves to it.
  static constexpr int64_t kMostNs = 10'000'000;

  std::shared_ptr<ControlSegment> find_under_way();

  std::atomic<uint32_t> count_{0};  // of |segments_|
  std::mutex mutex_;
  std::vector<std::shared_ptr<ControlSegment>> segments_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_URGENT_TRAFFIC_H_
