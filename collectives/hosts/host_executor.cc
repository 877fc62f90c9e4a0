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
  KEEL_RETURN_IF_ERROR(start(request, options, wait.context()));
  return finish(wait);
}

Status HostExecutor::start(const Request& request, const Options& options,
                           WaitContext& wait_context) {
  request_ = &request;
  options_ = options;
  calls_.clear();
  item_ = {};
  is_over_ = false;
  if (options.is_timed) begin_ = std::chrono::steady_clock::now();
  make_message_plan(request, ranks_.rank, ranks_.world, kSmallBytes / ranks_.world, &plan_);
  for (Slot& slot : slots_) slot.sent = slot.received = 0;
  KEEL_RETURN_IF_ERROR(buffers_.begin(request, plan_));
  for (uint64_t round = 0; round < batch_end(); ++round) {
    KEEL_RETURN_IF_ERROR(enter(round, wait_context));
  }
  context_.yield_to_urgent();
  return {};
}

Status HostExecutor::advance(WireWait& wait) {
  while (!is_over_) {
    wait.set_step(item_.step);
    Slot& slot = slots_[item_.round % HostBuffers::kDepth];
    bool is_ready = false;
    if (!item_.is_worked) {
      KEEL_RETURN_IF_ERROR(settle_receives(slot, &is_ready));
      if (is_ready && plan_.settles_sends) {
        KEEL_RETURN_IF_ERROR(settle_sends(slot, item_.step + 1, &is_ready));
      }
      if (!is_ready) return {};
      KEEL_RETURN_IF_ERROR(work());
      item_.is_worked = true;
    }
    // Messages that arrive in place may overwrite data sent in earlier steps.
    KEEL_RETURN_IF_ERROR(settle_sends(slot, item_.step + 1, &is_ready));
    if (!is_ready) return {};
    KEEL_RETURN_IF_ERROR(leave_item(wait.context()));
  }
  wait.set_step(0);
  return {};
}

Status HostExecutor::finish(WireWait& wait) {
  Status status;
  KEEL_RETURN_IF_ERROR(wait.until([&] {
    status = advance(wait);
    return is_over_ || !status.ok();
  }));
  KEEL_RETURN_IF_ERROR(status);
  return buffers_.finish(wait.context());
}

// The end of the rounds that alternate with |item_|'s.
uint64_t HostExecutor::batch_end() const {
  return std::min(buffers_.rounds(), item_.first + HostBuffers::kDepth);
}

Status HostExecutor::leave_item(WaitContext& wait_context) {
  constexpr uint64_t kDepth = HostBuffers::kDepth;
  const bool is_last = item_.step + 1 == plan_.steps;
  if (!is_last) {
    post(item_.round, item_.step + 1);
  } else {
    KEEL_RETURN_IF_ERROR(buffers_.leave(item_.round));
    if (item_.round + kDepth < buffers_.rounds()) {
      KEEL_RETURN_IF_ERROR(enter(item_.round + kDepth, wait_context));
    }
  }
  item_.is_worked = false;
  if (++item_.round < batch_end()) return {};
  if (!is_last) {
    ++item_.step;
    item_.round = item_.first;
    return {};
  }
  item_ = {.first = item_.round, .step = 0, .round = item_.round};
  is_over_ = item_.first == buffers_.rounds();
  if (!is_over_) {
    context_.yield_to_urgent();
  } else if (options_.is_timed) {
    time_ += std::chrono::steady_clock::now() - begin_;
  }
  return {};
}

Status HostExecutor::enter(uint64_t round, WaitContext& wait_context) {
  KEEL_RETURN_IF_ERROR(buffers_.enter(round, wait_context));
  Slot& slot = slots_[round % HostBuffers::kDepth];
  slot.sent = slot.settled_sends = slot.next_send = slot.next_work = 0;
  post(round, 0);
  return {};
}

// ---- messages -------------------------------------------------------------------

void HostExecutor::post(uint64_t round, uint32_t step) {
  Slot& slot = slots_[round % HostBuffers::kDepth];
  slot.received = slot.settled_receives = 0;
  buffers_.drop_landed(round);
  for (size_t i = slot.next_work; i < plan_.work.size() && plan_.work[i].step == step; ++i) {
    post_receives(round, plan_.work[i]);
  }
  const auto& sends = plan_.sends;
  for (; slot.next_send < sends.size() && sends[slot.next_send].step == step; ++slot.next_send) {
    post_send(round, sends[slot.next_send]);
  }
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

Status HostExecutor::settle_sends(Slot& slot, uint32_t end_step, bool* out_are_settled) {
  *out_are_settled = false;
  for (; slot.settled_sends < slot.sent; ++slot.settled_sends) {
    Message& message = slot.sends[slot.settled_sends];
    if (message.step >= end_step) break;
    if (!message.request.is_done()) return {};
    message.is_posted = false;
    KEEL_RETURN_IF_ERROR(message.request.status());
  }
  *out_are_settled = true;
  return {};
}

Status HostExecutor::settle_receives(Slot& slot, bool* out_are_settled) {
  *out_are_settled = false;
  for (; slot.settled_receives < slot.received; ++slot.settled_receives) {
    Message& message = slot.receives[slot.settled_receives];
    if (!message.request.is_done()) return {};
    const Status checked = check(message);
    if (checked.code() == KEEL_INVALID_ARGUMENT) collect_calls(slot);
    KEEL_RETURN_IF_ERROR(checked);
    message.is_posted = false;
  }
  *out_are_settled = true;
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

Status HostExecutor::work() {
  Slot& slot = slots_[item_.round % HostBuffers::kDepth];
  size_t message = 0;
  for (; slot.next_work < plan_.work.size() && plan_.work[slot.next_work].step == item_.step;
       ++slot.next_work) {
    KEEL_RETURN_IF_ERROR(run_work(item_.round, plan_.work[slot.next_work], &message));
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
