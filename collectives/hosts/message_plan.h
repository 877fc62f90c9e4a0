// SPDX-License-Identifier: Apache-2.0
// The messages and the work of one rank in an operation between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_MESSAGE_PLAN_H_
#define KEEL_COLLECTIVES_HOSTS_MESSAGE_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/algorithms/steps.h"
#include "collectives/operation.h"

namespace keel {

// Shares [first_share, end_share) of a part of one of the rank's buffers.
struct PartRange {
  StepBuffer buffer = StepBuffer::kSend;
  uint32_t part = 0;
  uint32_t first_share = 0;
  uint32_t end_share = 1;

  bool operator==(const PartRange&) const = default;
};

// A message that the rank sends in |step|.
struct PlannedSend {
  uint32_t step = 0;
  uint32_t peer = 0;
  PartRange range;
};

// Work of the rank in |step|: copies one source to |to|, or reduces the sources in order. Sources
// of other ranks arrive as messages, one per source.
struct PlannedWork {
  uint32_t step = 0;
  PartRange to;
  uint32_t first_source = 0;  // in MessagePlan::sources
  uint32_t source_count = 1;
  bool is_last = false;  // makes the final result
  bool is_own = false;   // copies the rank's own data; skipped in place
};

struct PlannedSource {
  uint32_t rank = 0;
  PartRange range;
};

// The plan of one rank: derived from the step plans of all ranks, or made by `direct`, in which
// every rank with data sends to every rank that needs the data. Messages of one pair of ranks are
// sent and received in the order of the plan, so they need no tags. Sends and work are in step
// order. In a step all sends precede the work.
struct MessagePlan {
  uint32_t steps = 1;
  uint32_t shares = 1;
  uint32_t work_parts = 0;
  bool is_barrier = false;     // messages carry no data
  bool settles_sends = false;  // work overwrites data sent in the same step
  std::vector<PlannedSend> sends;
  std::vector<PlannedWork> work;
  std::vector<PlannedSource> sources;

  void clear();
  void send(uint32_t peer, const PartRange& range);
  void copy(const PartRange& to, const PlannedSource& source, bool is_own = false);
  // The sources follow by add_source().
  void reduce(const PartRange& to);
  void add_source(uint32_t rank, const PartRange& range);
  std::span<const PlannedSource> sources_of(const PlannedWork& one) const {
    return {sources.data() + one.first_source, one.source_count};
  }
  // Later sends and work belong to the next step.
  void end_step() { ++steps; }
};

// Makes |rank|'s plan. An algorithm in steps (is_stepped()) must apply to the collective; any other
// value selects `direct`, which applies to all collectives but KEEL_SEND_RECV. Up to |small_bytes|
// of a buffer, `direct` uses one step; above, reductions and broadcasts move shares in two steps.
void make_message_plan(const Request& request, uint32_t rank, uint32_t world, uint64_t small_bytes,
                       MessagePlan* out_plan);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_MESSAGE_PLAN_H_
