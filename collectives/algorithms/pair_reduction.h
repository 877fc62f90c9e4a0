// SPDX-License-Identifier: Apache-2.0
// Device-offloaded reduction of two ranks: the device of one rank reduces for both.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_PAIR_REDUCTION_H_
#define KEEL_COLLECTIVES_ALGORITHMS_PAIR_REDUCTION_H_

#include <chrono>
#include <cstdint>

#include "collectives/bridge/device_reduction.h"
#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/pinned_segment_cache.h"
#include "core/status.h"

namespace keel {

// A rank's part of an all_reduce, where RankContext::may_sum_on_device(). The device of the rank
// with the host link does all the work; the second rank lends the buffers, and waits.
class PairReduction {
 public:
  PairReduction(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                const Side& receive, WaitContext& wait_context)
      : context_(context),
        request_(request),
        sequence_(sequence),
        send_(send),
        receive_(receive),
        wait_context_(wait_context) {}

  // Call once before publishing: returns whether the rank can do its part, as announced by the
  // descriptor. The buffers stay reachable for the device during the lifetime of the object.
  bool can_do();
  // After publishing: whether the second rank can take part.
  bool can_other_do() const;
  // Requires both ranks to be able to take part. |has_fetched|: the first chunks are staged, but
  // not needed.
  Status run(bool has_fetched);

 private:
  bool has_link() const { return context_.has_link(context_.rank()); }
  uint64_t window() const;  // elements
  Status sum_windows(bool has_fetched, uint64_t in_flight);
  void tell_exchange(uint32_t in_flight, std::chrono::steady_clock::time_point begin);

  RankContext& context_;
  const Request& request_;
  const uint64_t sequence_;
  const Side& send_;
  const Side& receive_;
  WaitContext& wait_context_;
  PinnedSegmentLease holds_[2];  // on the lent buffers
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_PAIR_REDUCTION_H_
