// SPDX-License-Identifier: Apache-2.0
// Engine of the step-wise algorithms: rings, trees, doubling and halving.
#ifndef KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_
#define KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "collectives/operation.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Memory of a rank that steps read and write: two buffers, and scratch with as many parts as the
// plan needs.
enum class StepBuffer : uint8_t { kSend, kReceive, kWork };

// A part of a buffer of |rank|. The collective defines the number of parts of a buffer: 1 or one
// per rank, all of the same size.
struct StepSource {
  uint32_t rank = 0;
  StepBuffer buffer = StepBuffer::kSend;
  uint32_t part = 0;
};

// A rank's work in one step: reads the same range of one or several parts, local or remote, and
// writes the result to a local part.
struct StepAction {
  static constexpr uint32_t kMostSources = 4;

  uint32_t step = 0;
  StepBuffer to = StepBuffer::kReceive;
  uint32_t part = 0;
  // Range of the part's shares.
  uint32_t first_share = 0;
  uint32_t end_share = 1;
  // 1: copies. More: reduces the sources in order.
  uint32_t source_count = 1;
  std::array<StepSource, kMostSources> sources = {};
  // In reductions: makes the final result, subject to the division of an average.
  bool is_last = false;
  // Copies the rank's own data; skipped in place.
  bool is_own = false;
};

// A rank's work in step order. Within a step no rank writes data read by a peer in the same step,
// not even in place. All ranks meet between steps.
struct StepPlan {
  uint32_t shares = 1;         // per part
  uint32_t work_parts = 0;     // equal on all ranks
  uint32_t steps = 0;          // equal on all ranks
  bool reads_receive = false;  // some rank reads a remote receive buffer
  std::vector<StepAction> actions;

  void clear();
  // Add an action of step |steps| on whole parts, unless the caller sets the range afterwards.
  StepAction& copy(StepBuffer to, uint32_t part, const StepSource& source);
  StepAction& reduce(StepBuffer to, uint32_t part, const StepSource& first,
                     const StepSource& second);
  // Later actions belong to the next step.
  void end_step() { ++steps; }
};

// Makes |rank|'s plan for |request|. The algorithm of |request| must apply to the collective.
void make_step_plan(const Request& request, uint32_t rank, uint32_t world, StepPlan* out_plan);

// Runs an operation by a plan: in a single round if no side is staged and the plan needs no
// scratch, else in rounds of a chunk, as DirectAlgorithm does. The parts of a round lie in the
// chunks of the stage: sent data in in(round), results and then scratch in out(round).
class StepsAlgorithm {
 public:
  StepsAlgorithm(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                 const Side& receive, const StepPlan& plan, WaitContext& wait_context);

  // Before publishing: stages the first rounds of the rank's buffers.
  Status start();
  // Runs the operation, after all ranks have published.
  Status run();
  // Statistics of the operation, after run().
  OperationPath way() const;

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
  // Number of elements of a part in the round.
  uint64_t size_of(uint64_t round) const;
  // Byte offset of element |at| of the round's part |part| in a chunk.
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
  WaitContext& wait_context_;
  const uint32_t world_;
  const uint32_t rank_;
  const uint64_t element_;
  const uint32_t receive_parts_;
  const uint64_t window_;  // elements of a part in a round of a chunk
  uint64_t round_elements_ = 0;
  uint64_t rounds_ = 0;
  bool any_staged_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ALGORITHMS_STEPS_H_
