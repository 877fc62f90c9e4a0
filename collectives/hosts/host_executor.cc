// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_executor.h"

#include <algorithm>
#include <bit>

#include "collectives/reduce/reduce.h"
#include "collectives/transports/wait_policy.h"

namespace keel {

HostExecutor::HostExecutor(RankContext& context, WireSet& wires, const HostRanks& ranks,
                           std::vector<uint32_t> members)
    : context_(context),
      wires_(wires),
      ranks_(ranks),
      members_(std::move(members)),
      buffers_(context, ranks) {}

Status HostExecutor::run(const Request& request, const Options& options, WireWait& wait) {
  request_ = &request;
  options_ = options;
  calls_.clear();
  make_message_plan(request, ranks_.rank, ranks_.world, kSmallBytes / ranks_.world, &plan_);
  for (Slot& slot : slots_) slot.sent = slot.received = 0;
  KEEL_RETURN_IF_ERROR(buffers_.begin(request, plan_));
  KEEL_RETURN_IF_ERROR(run_rounds(wait));
  return buffers_.finish(wait.context());
}

Status HostExecutor::run_rounds(WireWait& wait) {
  constexpr uint64_t kDepth = HostBuffers::kDepth;
  const uint64_t rounds = buffers_.rounds();
  for (uint64_t round = 0; round < std::min(rounds, kDepth); ++round) {
    KEEL_RETURN_IF_ERROR(enter(round, wait));
  }
  for (uint64_t first = 0; first < rounds; first += kDepth) {
    context_.yield_to_urgent();
    const uint64_t end = std::min(rounds, first + kDepth);
    for (uint32_t step = 0; step < plan_.steps; ++step) {
      for (uint64_t round = first; round < end; ++round) {
        KEEL_RETURN_IF_ERROR(complete(round, step, wait));
        if (step + 1 < plan_.steps) {
          KEEL_RETURN_IF_ERROR(post(round, step + 1, wait));
          continue;
        }
        KEEL_RETURN_IF_ERROR(await_sends(slots_[round % kDepth], plan_.steps, wait));
        KEEL_RETURN_IF_ERROR(buffers_.leave(round));
        if (round + kDepth < rounds) KEEL_RETURN_IF_ERROR(enter(round + kDepth, wait));
      }
    }
  }
  return {};
}

Status HostExecutor::enter(uint64_t round, WireWait& wait) {
  KEEL_RETURN_IF_ERROR(buffers_.enter(round, wait.context()));
  Slot& slot = slots_[round % HostBuffers::kDepth];
  slot.sent = slot.received = slot.next_send = slot.next_work = 0;
  return post(round, 0, wait);
}

// ---- messages -------------------------------------------------------------------

Status HostExecutor::post(uint64_t round, uint32_t step, WireWait& wait) {
  Slot& slot = slots_[round % HostBuffers::kDepth];
  // Messages that arrive in place may overwrite data sent in earlier steps.
  KEEL_RETURN_IF_ERROR(await_sends(slot, step, wait));
  slot.received = 0;
  buffers_.drop_landed(round);
  for (size_t i = slot.next_work; i < plan_.work.size() && plan_.work[i].step == step; ++i) {
    post_receives(round, plan_.work[i]);
  }
  const auto& sends = plan_.sends;
  for (; slot.next_send < sends.size() && sends[slot.next_send].step == step; ++slot.next_send) {
    post_send(round, sends[slot.next_send]);
  }
  return {};
}

void HostExecutor::post_message(Message& message, uint32_t peer, uint32_t lane, char* data,
                                uint64_t bytes, bool has_factor, bool is_send) {
  message.peer = peer;
  message.landed = data;
  message.is_posted = true;
  if (has_factor) {
    message.pieces = {iovec{&message.factor, sizeof(message.factor)}, iovec{data, bytes}};
    message.request.set_pieces(message.pieces);
  } else {
    message.request.set_memory(data, bytes);
  }
  message.request.set_mark(std::bit_cast<WireMark>(request_->print));
  if (is_send) {
    wires_.post_send(members_[peer], lane, message.request);
  } else {
    wires_.post_receive(members_[peer], lane, message.request);
  }
}

void HostExecutor::post_send(uint64_t round, const PlannedSend& send) {
  const HostBuffers::Range range = buffers_.find(send.range, round);
  if (range.count == 0 && !plan_.is_barrier) return;
  const uint32_t lane = round % HostBuffers::kDepth;
  Slot& slot = slots_[lane];
  if (slot.sent == slot.sends.size()) slot.sends.emplace_back();
  Message& message = slot.sends[slot.sent++];
  message.step = send.step;
  message.factor = request_->factor;
  post_message(message, send.peer, lane, range.data, range.count * buffers_.element(),
               carries_factor(send.range), /*is_send=*/true);
}

void HostExecutor::post_receives(uint64_t round, const PlannedWork& work) {
  const HostBuffers::Range to = buffers_.find(work.to, round);
  const uint32_t lane = round % HostBuffers::kDepth;
  const uint64_t bytes = to.count * buffers_.element();
  Slot& slot = slots_[lane];
  for (const PlannedSource& source : plan_.sources_of(work)) {
    if (!has_message(source, to)) continue;
    if (slot.received == slot.receives.size()) slot.receives.emplace_back();
    Message& message = slot.receives[slot.received++];
    message.factor = 1;
    const bool is_direct = work.source_count == 1;
    post_message(message, source.rank, lane, is_direct ? to.data : buffers_.land(round, bytes),
                 bytes, carries_factor(source.range), /*is_send=*/false);
  }
}

Status HostExecutor::await_sends(Slot& slot, uint32_t end_step, WireWait& wait) {
  for (size_t i = 0; i < slot.sent && slot.sends[i].step < end_step; ++i) {
    Message& message = slot.sends[i];
    if (!message.is_posted) continue;
    KEEL_RETURN_IF_ERROR(wait.until([&] { return message.request.is_done(); }));
    message.is_posted = false;
    KEEL_RETURN_IF_ERROR(message.request.status());
  }
  return {};
}

Status HostExecutor::check(const Message& message) const {
  const WireRequest& request = message.request;
  const Status& status = request.status();
  if (!request.has_message()) return status;
  if (!status.ok() && status.code() != KEEL_INVALID_ARGUMENT) return status;
  const auto print = std::bit_cast<Fingerprint>(request.mark());
  const bool fits = request.message_bytes() == request.posted_bytes();
  if (fits && print == request_->print) return status;
  return failure(KEEL_INVALID_ARGUMENT,
                 "mismatch: rank {} sends {} bytes to rank {}, which receives {}", message.peer,
                 request.message_bytes(), ranks_.rank, request.posted_bytes());
}

void HostExecutor::collect_calls(const Slot& slot) {
  // Long enough for ranks that call at about the same time, short enough to end the operation soon.
  const Deadline deadline = Deadline::after(200'000'000);
  const auto is_done = [&](size_t i) { return slot.receives[i].request.is_done(); };
  for (size_t i = 0; i < slot.received; ++i) {
    while (!is_done(i) && !deadline.passed() && wires_.failure().ok()) {
      if (!wires_.progress()) wires_.park(std::max<int64_t>(1, deadline.remaining_ns()));
    }
    const WireRequest& request = slot.receives[i].request;
    if (!is_done(i) || !request.has_message()) continue;
    calls_.push_back({slot.receives[i].peer, std::bit_cast<Fingerprint>(request.mark())});
  }
}

// ---- work -----------------------------------------------------------------------

Status HostExecutor::complete(uint64_t round, uint32_t step, WireWait& wait) {
  Slot& slot = slots_[round % HostBuffers::kDepth];
  for (size_t i = 0; i < slot.received; ++i) {
    Message& message = slot.receives[i];
    KEEL_RETURN_IF_ERROR(wait.until([&] { return message.request.is_done(); }));
    const Status checked = check(message);
    if (checked.code() == KEEL_INVALID_ARGUMENT) collect_calls(slot);
    KEEL_RETURN_IF_ERROR(checked);
    message.is_posted = false;
  }
  if (plan_.settles_sends) KEEL_RETURN_IF_ERROR(await_sends(slot, step + 1, wait));
  size_t message = 0;
  for (; slot.next_work < plan_.work.size() && plan_.work[slot.next_work].step == step;
       ++slot.next_work) {
    KEEL_RETURN_IF_ERROR(run_work(round, plan_.work[slot.next_work], &message));
  }
  return {};
}

Status HostExecutor::run_work(uint64_t round, const PlannedWork& work, size_t* in_out_message) {
  const HostBuffers::Range to = buffers_.find(work.to, round);
  Slot& slot = slots_[round % HostBuffers::kDepth];
  sources_.clear();
  factors_.clear();
  for (const PlannedSource& source : plan_.sources_of(work)) {
    if (has_message(source, to)) {
      const Message& message = slot.receives[(*in_out_message)++];
      sources_.push_back(message.landed);
      // Data outside a send buffer is already multiplied.
      const bool is_valid = can_premultiply(request_->dtype, message.factor);
      factors_.push_back(carries_factor(source.range) && is_valid ? message.factor : 1);
    } else if (to.count != 0) {
      sources_.push_back(buffers_.find(source.range, round).data);
      factors_.push_back(carries_factor(source.range) ? request_->factor : 1);
    }
  }
  if (to.count == 0) return {};
  if (work.source_count == 1) {
    if (sources_[0] != to.data) {
      copy_bytes(to.data, sources_[0], to.count * buffers_.element(), Store::kCached);
    }
    return {};
  }
  // An average is a sum until the last step.
  keel_reduction reduction = request_->reduction;
  if (reduction == KEEL_AVG && !work.is_last) reduction = KEEL_SUM;
  ReduceOptions options;
  if (reduction == KEEL_PREMUL_SUM) options.factors = factors_;
  options.divisor = options_.divisor != 0 ? options_.divisor : ranks_.world;
  void* const destinations[] = {to.data};
  reduce(request_->dtype, reduction, sources_, destinations, to.count, options);
  return {};
}

// ---- after a failure ------------------------------------------------------------

void HostExecutor::settle() {
  const auto is_posted = [](const Message& message) {
    return message.is_posted && !message.request.is_done();
  };
  const auto is_over = [&] {
    for (const Slot& slot : slots_) {
      if (std::any_of(slot.sends.begin(), slot.sends.end(), is_posted)) return false;
      if (std::any_of(slot.receives.begin(), slot.receives.end(), is_posted)) return false;
    }
    return true;
  };
  while (!is_over()) {
    if (!wires_.progress()) wires_.park(WaitPolicy::kSliceNs);
  }
  buffers_.settle();
}

std::vector<uint32_t> HostExecutor::awaited() const {
  std::vector<uint32_t> ranks;
  for (const Slot& slot : slots_) {
    for (const auto* messages : {&slot.receives, &slot.sends}) {
      for (const Message& message : *messages) {
        if (message.is_posted && !message.request.has_succeeded()) ranks.push_back(message.peer);
      }
    }
  }
  return ranks;
}

}  // namespace keel
