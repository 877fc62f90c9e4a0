// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/steps.h"

#include <algorithm>

#include "collectives/reduce/reduce.h"
#include "collectives/shares.h"
#include "core/observer.h"

namespace keel {

namespace {

// Elements of a part in a chunk of |parts| parts; whole cache lines where there is room.
uint64_t window_elements(uint64_t window_bytes, uint64_t element, uint32_t parts) {
  const uint64_t elements = window_bytes / element / parts;
  const uint64_t line = line_elements(element);
  return elements < line ? std::max<uint64_t>(1, elements) : elements / line * line;
}

}  // namespace

void StepPlan::clear() {
  shares = 1;
  work_parts = 0;
  steps = 0;
  reads_receive = false;
  actions.clear();
}

StepAction& StepPlan::copy(StepBuffer to, uint32_t part, const StepSource& source) {
  StepAction& action = actions.emplace_back();
  action.step = steps;
  action.to = to;
  action.part = part;
  action.end_share = shares;
  action.sources[0] = source;
  return action;
}

StepAction& StepPlan::reduce(StepBuffer to, uint32_t part, const StepSource& first,
                             const StepSource& second) {
  StepAction& action = copy(to, part, first);
  action.sources[1] = second;
  action.source_count = 2;
  return action;
}

StepsAlgorithm::StepsAlgorithm(RankContext& context, const Request& request, uint64_t sequence,
                               const Side& send, const Side& receive, const StepPlan& plan,
                               WaitContext& wait_context)
    : context_(context),
      request_(request),
      sequence_(sequence),
      send_(send),
      receive_(receive),
      plan_(plan),
      wait_context_(wait_context),
      world_(context.world()),
      rank_(context.rank()),
      element_(request.element()),
      receive_parts_(request.receive_parts(world_)),
      window_(window_elements(
          context.window_bytes(), element_,
          std::max(request.send_parts(world_), receive_parts_ + plan.work_parts))) {}

bool StepsAlgorithm::is_in_place() const {
  if (send_.bytes == 0 || receive_.bytes == 0) return false;
  return send_.buffer.device + request_.send_piece(rank_, rank_).offset * element_ ==
         receive_.buffer.device + request_.receive_piece(rank_, rank_, world_).offset * element_;
}

uint64_t StepsAlgorithm::size_of(uint64_t round) const {
  const uint64_t begin = round * round_elements_;
  return begin >= request_.count ? 0 : std::min(round_elements_, request_.count - begin);
}

StepsAlgorithm::Range StepsAlgorithm::range_of(const StepAction& action, uint64_t round) const {
  const uint64_t count = size_of(round);
  const uint64_t share = share_elements(count, plan_.shares, element_);
  const uint64_t begin = std::min(count, action.first_share * share);
  return {begin, std::min(count, action.end_share * share) - begin};
}

// ---- staged sides ---------------------------------------------------------------

Status StepsAlgorithm::fetch(uint64_t round) {
  if (!send_.staged || send_.bytes == 0) return {};
  for (uint32_t part = 0; part < request_.send_parts(world_); ++part) {
    const uint64_t first = part * request_.count + round * round_elements_;
    KEEL_RETURN_IF_ERROR(context_.stage().fetch(round, send_.buffer, first * element_,
                                                window_offset(part, 0), size_of(round) * element_));
  }
  context_.to_host.store(context_.stage().traffic().to_host, std::memory_order_relaxed);
  return {};
}

Status StepsAlgorithm::deliver(uint64_t round) {
  if (!receive_.staged || receive_.bytes == 0) return {};
  const bool keeps_own = !reduces(request_.collective) && is_in_place();
  for (uint32_t part = 0; part < receive_parts_; ++part) {
    if (keeps_own && (receive_parts_ == 1 || part == rank_)) continue;
    const uint64_t first = (part * request_.count + round * round_elements_) * element_;
    const uint64_t bytes = size_of(round) * element_;
    if (receive_.buffer.host != nullptr) {
      // Unreachable for the peers, but not for this rank.
      copy_bytes(receive_.buffer.host + first, context_.stage().out(round) + window_offset(part, 0),
                 bytes, Store::kCached);
      continue;
    }
    KEEL_RETURN_IF_ERROR(
        context_.stage().deliver(round, receive_.buffer, first, window_offset(part, 0), bytes));
  }
  context_.to_device.store(context_.stage().traffic().to_device, std::memory_order_relaxed);
  return {};
}

char* StepsAlgorithm::own(StepBuffer buffer, uint32_t part, uint64_t round, uint64_t at) const {
  StagingPipeline& stage = context_.stage();
  if (buffer == StepBuffer::kWork)
    return stage.out(round) + window_offset(receive_parts_ + part, at);
  const Side& side = buffer == StepBuffer::kSend ? send_ : receive_;
  if (side.staged) {
    return (buffer == StepBuffer::kSend ? stage.in(round) : stage.out(round)) +
           window_offset(part, at);
  }
  return side.buffer.host + (part * request_.count + round * round_elements_ + at) * element_;
}

// ---- the other ranks' sides -----------------------------------------------------

Status StepsAlgorithm::source(const StepSource& source, uint64_t round, const Range& range,
                              const char** out_data) {
  if (source.rank == rank_) {
    *out_data = own(source.buffer, source.part, round, range.begin);
    return {};
  }
  const OperationDescriptor& descriptor = context_.board().descriptor(source.rank, sequence_);
  const StagingPipeline& stage = context_.stage();
  const uint64_t direct =
      (source.part * request_.count + round * round_elements_ + range.begin) * element_;
  const uint64_t bytes = range.count * element_;
  MemHandle place;
  uint64_t offset = direct;
  switch (source.buffer) {
    case StepBuffer::kSend:
      place = descriptor.send;
      if ((descriptor.flags & OperationDescriptor::kSendStaged) != 0) {
        offset = stage.in_offset(round) + window_offset(source.part, range.begin);
      }
      break;
    case StepBuffer::kReceive:
      place = descriptor.receive;
      if ((descriptor.flags & OperationDescriptor::kReceiveStaged) != 0) {
        offset = stage.out_offset(round) + window_offset(source.part, range.begin);
      }
      break;
    case StepBuffer::kWork:
      place = descriptor.work;
      offset = stage.out_offset(round) + window_offset(receive_parts_ + source.part, range.begin);
      break;
  }
  return context_.resolve(source.rank, place, descriptor.memory_epoch, offset, bytes, wait_context_,
                          out_data);
}

double StepsAlgorithm::factor_of(const StepSource& source) {
  // Data outside a send buffer is already multiplied.
  if (source.buffer != StepBuffer::kSend) return 1;
  return context_.published_factor(source.rank, request_, sequence_);
}

// ---- rounds ---------------------------------------------------------------------

Status StepsAlgorithm::start() {
  // Resets chunk sizes of earlier operations in rounds.
  context_.stage().use_windows(context_.window_bytes(), 2);
  if (!send_.staged) return {};
  round_elements_ = window_;
  KEEL_RETURN_IF_ERROR(fetch(0));
  return fetch(1);
}

Status StepsAlgorithm::run() {
  any_staged_ = send_.staged || receive_.staged;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    const OperationDescriptor& descriptor = context_.board().descriptor(rank, sequence_);
    any_staged_ = any_staged_ || (descriptor.flags & (OperationDescriptor::kSendStaged |
                                                      OperationDescriptor::kReceiveStaged)) != 0;
  }
  const bool has_windows = any_staged_ || plan_.work_parts != 0;
  round_elements_ = has_windows ? window_ : std::max<uint64_t>(1, request_.count);
  const HostSpan span(
      reduces(request_.collective) ? "host reduce" : "host copy", [&](AccessList& accesses) {
        if (receive_.buffer.host != nullptr && receive_.bytes != 0) {
          accesses.writes(&context_.device(), receive_.buffer.device, receive_.bytes);
        }
        if (!send_.staged && send_.bytes != 0) {
          accesses.reads(&context_.device(), send_.buffer.device, send_.bytes);
        }
      });
  rounds_ = (request_.count + round_elements_ - 1) / round_elements_;
  for (uint64_t round = 0; round < rounds_; ++round) {
    context_.yield_to_urgent();
    if (any_staged_ && send_.staged) {
      KEEL_RETURN_IF_ERROR(context_.stage().await_fetched(round, wait_context_));
    }
    // All ranks have staged their part of this round, and have completed the round before.
    if (any_staged_ || round != 0) KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
    if (round != 0) KEEL_RETURN_IF_ERROR(fetch(round + 1));
    if (receive_.staged)
      KEEL_RETURN_IF_ERROR(context_.stage().await_delivered(round, wait_context_));
    KEEL_RETURN_IF_ERROR(run_round(round));
    KEEL_RETURN_IF_ERROR(deliver(round));
  }
  // Buffers and chunks must not change until all ranks have read them.
  KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
  if (receive_.staged) {
    KEEL_RETURN_IF_ERROR(context_.stage().await_delivered(0, wait_context_));
    KEEL_RETURN_IF_ERROR(context_.stage().await_delivered(1, wait_context_));
  }
  if (!send_.staged && send_.bytes != 0) context_.count_in_place(send_.bytes);
  if (!receive_.staged && receive_.bytes != 0) context_.count_in_place(receive_.bytes);
  return {};
}

OperationPath StepsAlgorithm::way() const {
  OperationPath way;
  way.algorithm = algorithm_name(request_.algorithm);
  way.rounds = rounds_ * plan_.steps;
  way.round_bytes = std::min(round_elements_, request_.count) * element_;
  way.is_staged = any_staged_;
  return way;
}

Status StepsAlgorithm::run_round(uint64_t round) {
  uint32_t step = 0;
  for (const StepAction& action : plan_.actions) {
    for (; step < action.step; ++step) KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
    KEEL_RETURN_IF_ERROR(run_action(action, round));
  }
  for (; step + 1 < plan_.steps; ++step) KEEL_RETURN_IF_ERROR(context_.meet(wait_context_));
  return {};
}

Status StepsAlgorithm::run_action(const StepAction& action, uint64_t round) {
  const Range range = range_of(action, round);
  if (range.count == 0 || (action.is_own && is_in_place())) return {};
  std::array<const char*, StepAction::kMostSources> sources = {};
  std::array<double, StepAction::kMostSources> factors = {};
  for (uint32_t i = 0; i < action.source_count; ++i) {
    KEEL_RETURN_IF_ERROR(source(action.sources[i], round, range, &sources[i]));
    factors[i] = factor_of(action.sources[i]);
  }
  char* const destination = own(action.to, action.part, round, range.begin);
  // An average is a sum until the last step.
  keel_reduction reduction = request_.reduction;
  if (reduction == KEEL_AVG && !action.is_last) reduction = KEEL_SUM;
  const uint64_t most = RankContext::kStepBytes / element_;
  for (uint64_t done = 0; done < range.count; done += most) {
    if (done != 0) KEEL_RETURN_IF_ERROR(context_.between_steps());
    const uint64_t count = std::min(most, range.count - done);
    void* const destinations[] = {destination + done * element_};
    if (action.source_count == 1) {
      copy_bytes(destinations[0], sources[0] + done * element_, count * element_, Store::kCached);
      continue;
    }
    std::array<const void*, StepAction::kMostSources> parts = {};
    for (uint32_t i = 0; i < action.source_count; ++i) parts[i] = sources[i] + done * element_;
    ReduceOptions options;
    if (reduction == KEEL_PREMUL_SUM) options.factors = {factors.data(), action.source_count};
    options.divisor = world_;
    reduce(request_.dtype, reduction, {parts.data(), action.source_count}, destinations, count,
           options);
  }
  return {};
}

}  // namespace keel
