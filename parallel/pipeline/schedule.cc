// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <keel/error.hpp>
#include <keel/parallel/schedule.hpp>
#include <map>
#include <tuple>

#include "parallel/pipeline/passes.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

[[noreturn]] void refuse(const PipelineSchedule& schedule, const std::string& reason) {
  throw Error(KEEL_INVALID_ARGUMENT, "schedule " + schedule.name + ": " + reason);
}

std::string rank_text(size_t rank) {
  return "rank " + std::to_string(rank);
}

// What is known of each pass while a schedule is played.
class Passed {
 public:
  explicit Passed(const PipelineSchedule& schedule)
      : micro_batches_(schedule.micro_batches),
        ends_(4 * size_t{schedule.stages()} * micro_batches_, kNot) {}

  void set(const Action& action, double end) { ends_[index(action)] = end; }
  bool is_done(const Action& action) const { return ends_[index(action)] != kNot; }
  double end(const Action& action) const { return ends_[index(action)]; }

 private:
  static constexpr double kNot = -1;

  size_t index(const Action& action) const {
    return (static_cast<size_t>(action.task) + 4 * size_t{action.stage}) * micro_batches_ +
           action.micro_batch;
  }

  size_t micro_batches_;
  std::vector<double> ends_;
};

// The passes whose results |action| needs; one of two tasks may stand for a backward pass.
std::vector<std::vector<Action>> needs(const PipelineSchedule& schedule, const Action& action) {
  const uint32_t stage = action.stage;
  const uint32_t m = action.micro_batch;
  switch (action.task) {
    case Task::kForward:
      if (stage == 0) return {};
      return {{{Task::kForward, stage - 1, m}}};
    case Task::kBackwardWeight:
      return {{{Task::kBackwardData, stage, m}}};
    default:
      if (stage + 1 == schedule.stages()) return {{{Task::kForward, stage, m}}};
      return {{{Task::kForward, stage, m}},
              {{Task::kBackward, stage + 1, m}, {Task::kBackwardData, stage + 1, m}}};
  }
}

// Plays |schedule|; calls |visit|(rank, action, begin, end) for each pass, in an order in which
// they can run.
template <typename Visit>
void play(const PipelineSchedule& schedule, const CostOf& cost, double transfer,
          const Visit& visit) {
  Passed passed(schedule);
  std::vector<size_t> next(schedule.ranks, 0);
  std::vector<double> free_at(schedule.ranks, 0);
  const auto ready_at = [&](uint32_t rank, const Action& action, double* out_time) {
    *out_time = free_at[rank];
    for (const std::vector<Action>& either : needs(schedule, action)) {
      const auto done = std::find_if(either.begin(), either.end(),
                                     [&](const Action& needed) { return passed.is_done(needed); });
      if (done == either.end()) return false;
      const bool is_far = schedule.rank_of(done->stage) != rank;
      *out_time = std::max(*out_time, passed.end(*done) + (is_far ? transfer : 0));
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < schedule.ranks; ++rank) {
      const std::vector<Action>& actions = schedule.actions[rank];
      double begin = 0;
      while (next[rank] < actions.size() && ready_at(rank, actions[next[rank]], &begin)) {
        const Action& action = actions[next[rank]++];
        const double end = begin + cost(action);
        passed.set(action, end);
        free_at[rank] = end;
        visit(rank, action, begin, end);
        moved = true;
      }
    }
  }
  for (uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    if (next[rank] < schedule.actions[rank].size()) {
      refuse(schedule,
             rank_text(rank) + " waits forever at the " + text(schedule.actions[rank][next[rank]]));
    }
  }
}

// Each pass of the rank's stages once, and no other.
void check_passes(const PipelineSchedule& schedule, uint32_t rank) {
  std::map<std::tuple<uint32_t, uint32_t, Task>, int> seen;
  std::vector<uint32_t> weight_next(schedule.chunks, 0);
  for (const Action& action : schedule.actions[rank]) {
    if (action.stage >= schedule.stages() || action.micro_batch >= schedule.micro_batches ||
        schedule.rank_of(action.stage) != rank) {
      refuse(schedule, rank_text(rank) + " has no " + text(action));
    }
    if (seen[{action.stage, action.micro_batch, action.task}]++ != 0) {
      refuse(schedule, rank_text(rank) + " has the " + text(action) + " twice");
    }
    if (action.task != Task::kBackward && action.task != Task::kBackwardWeight) continue;
    uint32_t& expected = weight_next[schedule.chunk_of(action.stage)];
    if (action.micro_batch != expected++) {
      refuse(schedule,
             rank_text(rank) + " adds weights' gradients out of order at the " + text(action));
    }
  }
  for (uint32_t chunk = 0; chunk < schedule.chunks; ++chunk) {
    const uint32_t stage = chunk * schedule.ranks + rank;
    for (uint32_t m = 0; m < schedule.micro_batches; ++m) {
      const auto has = [&](Task task) { return seen.contains({stage, m, task}); };
      if (!has(Task::kForward)) {
        refuse(schedule, rank_text(rank) + " lacks the " + text({Task::kForward, stage, m}));
      }
      if (has(Task::kBackward) && (has(Task::kBackwardData) || has(Task::kBackwardWeight))) {
        refuse(schedule, rank_text(rank) + " has the " + text({Task::kBackward, stage, m}) +
                             " whole and in parts");
      }
      if (has(Task::kBackward)) continue;
      for (Task task : {Task::kBackwardData, Task::kBackwardWeight}) {
        if (!has(task)) refuse(schedule, rank_text(rank) + " lacks the " + text({task, stage, m}));
      }
    }
  }
}

void check_memory(const PipelineSchedule& schedule, uint32_t rank) {
  uint32_t held = 0;
  for (const Action& action : schedule.actions[rank]) {
    if (action.task == Task::kForward && ++held > schedule.in_flight[rank]) {
      refuse(schedule, rank_text(rank) + " holds " + std::to_string(held) +
                           " micro-batches at the " + text(action) + ", above its bound of " +
                           std::to_string(schedule.in_flight[rank]));
    }
    if (action.task == Task::kBackward || action.task == Task::kBackwardWeight) --held;
  }
}

// A message is received in the order of the receiver's passes and sent in the order of the
// sender's: those of each direction between two ranks must be the same.
void check_messages(const PipelineSchedule& schedule) {
  using Message = std::pair<uint32_t, uint32_t>;  // stage that receives, micro-batch
  for (const bool forward : {true, false}) {
    std::vector<std::vector<Message>> sent(schedule.ranks), received(schedule.ranks);
    for (uint32_t rank = 0; rank < schedule.ranks; ++rank) {
      for (const Action& action : schedule.actions[rank]) {
        if (action.task == Task::kBackwardWeight || (action.task == Task::kForward) != forward) {
          continue;
        }
        const uint32_t stage = action.stage;
        const bool is_last = forward ? stage + 1 == schedule.stages() : stage == 0;
        const bool is_first = forward ? stage == 0 : stage + 1 == schedule.stages();
        if (!is_last) {
          sent[rank].emplace_back(forward ? stage + 1 : stage - 1, action.micro_batch);
        }
        // Named by the sender, the neighbour of this rank.
        if (!is_first) {
          const uint32_t from = schedule.rank_of(forward ? stage - 1 : stage + 1);
          received[from].emplace_back(stage, action.micro_batch);
        }
      }
    }
    for (uint32_t rank = 0; rank < schedule.ranks; ++rank) {
      const auto [a, b] = std::mismatch(sent[rank].begin(), sent[rank].end(),
                                        received[rank].begin(), received[rank].end());
      if (a == sent[rank].end() && b == received[rank].end()) continue;
      refuse(schedule, rank_text(rank) + " sends " + (forward ? "outputs" : "gradients") +
                           " in another order than the next rank receives, from message " +
                           std::to_string(a - sent[rank].begin()) + " on");
    }
  }
}

}  // namespace

const char* name_of(Task task) {
  constexpr std::array<const char*, 4> kNames = {"forward", "backward", "data gradient",
                                                 "weight gradient"};
  return kNames.at(static_cast<size_t>(task));
}

std::string text(const Action& action) {
  return std::string(name_of(action.task)) + " of micro-batch " +
         std::to_string(action.micro_batch) + " in stage " + std::to_string(action.stage);
}

double TaskCosts::of(Task task) const {
  switch (task) {
    case Task::kForward:
      return forward;
    case Task::kBackward:
      return backward_data + backward_weight;
    case Task::kBackwardData:
      return backward_data;
    default:
      return backward_weight;
  }
}

double PipelineSchedule::bubble(const TaskCosts& costs) const {
  const double waits = idle(costs);
  return waits / (waits + static_cast<double>(chunks) * micro_batches * costs.all());
}

void require_sizes(uint32_t ranks, uint32_t chunks, uint32_t micro_batches) {
  const char* const zero = ranks == 0           ? "ranks"
                           : chunks == 0        ? "chunks"
                           : micro_batches == 0 ? "micro-batches"
                                                : nullptr;
  if (zero != nullptr) {
    throw Error(KEEL_INVALID_ARGUMENT, std::string("schedule: the number of ") + zero + " is 0");
  }
}

PipelineSchedule make_schedule(const std::string& name, uint32_t ranks, uint32_t chunks,
                               uint32_t micro_batches) {
  if (name == "1f1b") return one_f_one_b(ranks, micro_batches);
  if (name == "1f1b-apart") return one_f_one_b(ranks, micro_batches, Gradients::kApart);
  if (name == "interleaved") return interleaved(ranks, chunks, micro_batches);
  if (name == "interleaved-apart") {
    return interleaved(ranks, chunks, micro_batches, Gradients::kApart);
  }
  if (name == "zero-bubble") return zero_bubble(ranks, micro_batches);
  throw Error(KEEL_INVALID_ARGUMENT, "schedule '" + name +
                                         "' is none of 1f1b, 1f1b-apart, interleaved, "
                                         "interleaved-apart, zero-bubble");
}

void check(const PipelineSchedule& schedule) {
  if (schedule.actions.size() != schedule.ranks || schedule.in_flight.size() != schedule.ranks) {
    refuse(schedule, "not the actions of " + std::to_string(schedule.ranks) + " ranks");
  }
  for (uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    check_passes(schedule, rank);
    check_memory(schedule, rank);
  }
  check_messages(schedule);
  play(
      schedule, [](const Action&) { return 1.0; }, /*transfer=*/0,
      [](uint32_t, const Action&, double, double) {});
}

Replay replay(const PipelineSchedule& schedule, const CostOf& cost, double transfer) {
  Replay result;
  result.passes.resize(schedule.ranks);
  double busy = 0;
  play(schedule, cost, transfer,
       [&](uint32_t rank, const Action& action, double begin, double end) {
         result.passes[rank].push_back({action, begin, end});
         result.end = std::max(result.end, end);
         busy += end - begin;
       });
  if (result.end > 0) result.bubble = 1 - busy / (result.end * schedule.ranks);
  return result;
}

Replay replay(const PipelineSchedule& schedule, const TaskCosts& costs, double transfer) {
  return replay(
      schedule, [&](const Action& action) { return costs.of(action.task); }, transfer);
}

std::vector<int64_t> divide_layers(int64_t layers, std::span<const double> speeds,
                                   std::span<const double> extra) {
  const auto stages = static_cast<int64_t>(speeds.size());
  if (stages == 0 || layers < stages) {
    throw Error(KEEL_INVALID_ARGUMENT, std::to_string(layers) + " layers for " +
                                           std::to_string(stages) + " pipeline stages");
  }
  if (!extra.empty() && extra.size() != speeds.size()) {
    throw Error(KEEL_INVALID_ARGUMENT, "divide_layers: extra work of " +
                                           std::to_string(extra.size()) + " stages, not " +
                                           std::to_string(stages));
  }
  for (const double speed : speeds) {
    if (!(speed > 0)) {
      throw Error(KEEL_INVALID_ARGUMENT,
                  "divide_layers: a speed of " + std::to_string(speed) + " is not above 0");
    }
  }
  std::vector<int64_t> division(speeds.size(), 1);
  const auto next_end = [&](size_t stage) {
    const double more = extra.empty() ? 0 : extra[stage];
    return (static_cast<double>(division[stage] + 1) + more) / speeds[stage];
  };
  // Each layer goes where it ends first: a division whose slowest stage ended earlier would have
  // given that stage's last layer to another one, where it ends no earlier.
  for (int64_t layer = stages; layer < layers; ++layer) {
    size_t best = 0;
    for (size_t stage = 1; stage < speeds.size(); ++stage) {
      if (next_end(stage) < next_end(best)) best = stage;
    }
    ++division[best];
  }
  return division;
}

}  // namespace v0
}  // namespace keel::parallel
