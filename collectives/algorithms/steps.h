// SPDX-License-Identifier: Apache-2.0
// One engine for the algorithms that go in steps: rings, trees, doubling and halving.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_
#define KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Memory of a rank that steps read and write: its two buffers, and scratch of as many parts as
// the plan wants.
enum class StepBuffer : uint8_t { kSend, kReceive, kWork };

// A part of a buffer of |rank|'s. Buffers have parts as the collective has them: one, or one a
// rank, of the same size all.
struct StepSource {
  uint32_t rank = 0;
  StepBuffer buffer = StepBuffer::kSend;
  uint32_t part = 0;
};

// What one rank does in one step: reads the same range of one or several parts, its own and
// others', and writes what comes of it to a part of its own.
struct StepAction {
  static constexpr uint32_t kMostSources = 4;

  uint32_t step = 0;
  StepBuffer to = StepBuffer::kReceive;
  uint32_t part = 0;
  // Of the shares that a part is divided into.
  uint32_t first_share = 0;
  uint32_t end_share = 1;
  // One: it is copied. Several: they are reduced in their order.
  uint32_t source_count = 1;
  std::array<StepSource, kMostSources> sources = {};
  // Of reductions: the result, which an average divides.
  bool is_last = false;
  // A rank's copy of its own data: in place it is there already.
  bool is_own = false;
};

// What one rank does, in the order of the steps. Within one step nobody writes what another
// reads in the same step, in place neither: between steps all ranks meet.
struct StepPlan {
  uint32_t shares = 1;         // of each part
  uint32_t work_parts = 0;     // on every rank alike
  uint32_t steps = 0;          // on every rank alike
  bool reads_receive = false;  // some rank reads another's receive buffer
  std::vector<StepAction> actions;

  void clear();
  // Of whole parts, unless the range is given afterwards; in step |steps|.
  StepAction& copy(StepBuffer to, uint32_t part, const StepSource& source);
  StepAction& reduce(StepBuffer to, uint32_t part, const StepSource& first,
                     const StepSource& second);
  // What follows belongs to the next step.
  void end_step() { ++steps; }
};

// The plan of |rank| for |request|, by its algorithm, which applies to it.
void make_step_plan(const Request& request, uint32_t rank, uint32_t world, StepPlan* out_plan);

// Runs one operation by a plan. Where nothing is staged and the plan wants no scratch, all at
// once; else in rounds of a window, as DirectAlgorithm does: the part of each round lies in
// the stage's windows, in(round) for what is sent, out(round) for results and then scratch.
class StepsAlgorithm {
 public:
  StepsAlgorithm(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                 const Side& receive, const StepPlan& plan, Patience& patience);

  // Before the posts: what the first rounds need of this rank's staged buffers.
  Status start();
  // After them.
  Status run();
  // Which way it went, after run().
  ExchangeWay way() const;

 private:
  // Elements of a part, in this round.
  struct Range {
    uint64_t begin;
    uint64_t count;
  };

  Status run_round(uint64_t round);
  Status run_action(const StepAction& action, uint64_t round);
  Status fetch(uint64_t round);
  Status deliver(uint64_t round);
  Range range_of(const StepAction& action, uint64_t round) const;
  // Elements of a part that fall in this round.
  uint64_t size_of(uint64_t round) const;
  // Where the element |at| of this round's part lies in a window of |first| parts and more.
  uint64_t window_offset(uint32_t part, uint64_t at) const {
    return (part * round_elements_ + at) * element_;
  }
  char* own(StepBuffer buffer, uint32_t part, uint64_t round, uint64_t at) const;
  Status source(const StepSource& source, uint64_t round, const Range& range,
                const char** out_data);
  double factor_of(const StepSource& source);
  bool is_in_place() const;

  RankContext& context_;
  const Request& request_;
  const uint64_t sequence_;
  const Side& send_;
  const Side& receive_;
  const StepPlan& plan_;
  Patience& patience_;
  const uint32_t world_;
  const uint32_t rank_;
  const uint64_t element_;
  const uint32_t receive_parts_;
  const uint64_t window_;  // elements of a part in a round of a window
  uint64_t round_elements_ = 0;
  uint64_t rounds_ = 0;
  bool any_staged_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_
