// SPDX-License-Identifier: Apache-2.0
// Weights of the lanes between hosts that follow the rates of their wires.
#ifndef KEEL_COLLECTIVES_HOSTS_LANE_METER_H_
#define KEEL_COLLECTIVES_HOSTS_LANE_METER_H_

#include <cstdint>
#include <mutex>
#include <vector>

#include "collectives/hosts/lane_shares.h"
#include "core/json_writer.h"

namespace keel {

// Each rank notes how long the part of its own lane takes between the hosts. After some operations,
// the same ones on all ranks, the ranks exchange their rates, and each derives the same weights: a
// lane gets work in proportion to its rate, so that all lanes end at the same time. A rank that
// waits for a late host notes a lower rate, in all lanes alike; further revisions then come to the
// same weights in smaller steps.
//
// For one thread, but for explain().
class LaneMeter {
 public:
  // |set|: KEEL_LANE_SHARES of rank 0; not empty: the weights stay as they are set.
  LaneMeter(uint32_t lanes, LaneShares set);

  // Weights for the next operation. Empty: equal parts.
  const LaneShares& shares() const { return shares_; }
  // Whether operations of |bytes|, of all lanes together, are noted. In shorter ones the latency of
  // the network counts for more than its bandwidth.
  bool notes(uint64_t bytes) const { return lanes_ > 1 && set_.empty() && bytes >= kLeastBytes; }
  // Notes an operation in which this rank's lane carried |bytes| in |ns|.
  void note(uint64_t bytes, int64_t ns);
  // Whether the ranks are to exchange rate() now, and call agree().
  bool is_due() const { return operations_ == next_; }
  // Median of the noted rates, in KiB/s; 0: none.
  uint64_t rate() const;
  // |rates|: of each lane, the same on all ranks; 0: not known, which changes nothing.
  void agree(const std::vector<uint64_t>& rates);

  // Writes members of a JSON object: parts of the data by lane, their source, and the rates in MB/s
  // that the ranks exchanged last. Thread-safe.
  void explain(JsonWriter& json) const;

  static constexpr uint64_t kLeastBytes = 1 << 20;
  // Operations from a change of the weights to the next exchange. The interval doubles with each
  // exchange that changes nothing: an exchange costs a round trip, as a barrier.
  static constexpr uint64_t kFirstInterval = 8;
  static constexpr uint64_t kMostInterval = 1024;

 private:
  static constexpr size_t kMostSamples = 15;

  const uint32_t lanes_;
  const LaneShares set_;
  uint64_t operations_ = 0;
  uint64_t interval_ = kFirstInterval;
  uint64_t next_ = kFirstInterval;
  std::vector<uint64_t> samples_;  // the last kMostSamples, in KiB/s
  size_t oldest_ = 0;              // of |samples_|, once there are so many
  mutable std::mutex mutex_;       // guards the writes of what explain() reads
  LaneShares shares_;
  std::vector<uint64_t> rates_;  // as agreed last
};

// Returns weights for lanes of |rates|, all above 0, of which now carry |now|; |now| itself unless
// the slowest lane takes kNoticeablePercent longer than the fastest. Lanes whose rates are within
// kNoticeablePercent of each other get the same weight; with one weight for all, returns none.
inline constexpr uint64_t kNoticeablePercent = 20;
LaneShares revise_lane_shares(const LaneShares& now, std::vector<uint64_t> rates);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_LANE_METER_H_
