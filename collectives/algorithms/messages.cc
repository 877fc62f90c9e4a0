// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/messages.h"

#include <algorithm>
#include <cstring>

#include "collectives/deadlock_detector.h"
#include "collectives/transports/wait_policy.h"
#include "core/observer.h"

namespace keel {

Status PointToPointTransfers::mismatch(uint32_t sender, uint64_t sent, keel_dtype sent_dtype,
                                       uint32_t receiver, uint64_t wanted,
                                       keel_dtype wanted_dtype) const {
  return failure(KEEL_INVALID_ARGUMENT, "mismatch: {} sends {} {}, {} receives {} {}",
                 context_.team().name(sender), sent, element_name(sent_dtype),
                 context_.team().name(receiver), wanted, element_name(wanted_dtype));
}

Status PointToPointTransfers::refusal(uint32_t rank, const Transfer& own, keel_status code) const {
  return failure(KEEL_RANK_FAILED, "{}: its {} was refused there: {}", context_.team().name(rank),
                 own.sends ? fmt::format("receive from rank {}", context_.rank())
                           : fmt::format("send to rank {}", context_.rank()),
                 status_name(code));
}

Status PointToPointTransfers::lease_staging(Moving& moving) {
  if (stages_.empty()) {
    moving.stage =
        std::make_unique<StagingPipeline>(context_.device(), context_.chunk_bytes(),
                                          !context_.team().is_local(), context_.team().is_urgent());
  } else {
    moving.stage = std::move(stages_.back());
    stages_.pop_back();
  }
  return moving.stage->prepare(/*device_copies=*/moving.side.buffer.host == nullptr);
}

Status PointToPointTransfers::begin(const Transfer& transfer, Moving* out_moving) {
  Moving moving = {};
  moving.transfer = &transfer;
  Counters& counters = counters_[transfer.peer];
  moving.sequence = transfer.sends ? counters.sent++ : counters.received++;
  if (transfer.refused != KEEL_OK) {
    *out_moving = std::move(moving);
    return {};
  }
  const void* pointer = transfer.sends ? transfer.source : transfer.destination;
  KEEL_RETURN_IF_ERROR(
      context_.make_message_side(pointer, transfer.bytes(), transfer.sends, &moving.side));
  if (moving.side.staged) KEEL_RETURN_IF_ERROR(lease_staging(moving));
  const uint64_t window = context_.chunk_bytes();
  moving.windows = (transfer.bytes() + window - 1) / window;
  *out_moving = std::move(moving);
  return {};
}

// ---- buffered sends -------------------------------------------------------------

bool PointToPointTransfers::can_buffer(const Moving& moving, uint32_t* out_index) {
  const Transfer& transfer = *moving.transfer;
  if (!only_sends_ || transfer.refused != KEEL_OK ||
      transfer.bytes() > PointToPointSlots::kBufferBytes)
    return false;
  // A receive that has begun pulls the data, which saves a copy.
  const ProgressCounters& theirs = context_.messages().counters(transfer.peer, context_.rank());
  if (theirs.receives.load(std::memory_order_acquire) > moving.sequence) return false;
  if (buffers_in_use_ == PointToPointSlots::kBuffers) collect_buffers();
  for (uint32_t i = 0; i < PointToPointSlots::kBuffers; ++i) {
    if (buffers_[i].in_use) continue;
    *out_index = i;
    return true;
  }
  return false;
}

Status PointToPointTransfers::send_buffered(Moving& moving, PointToPointSlot& slot, uint32_t index,
                                            WaitContext& wait_context) {
  const Transfer& transfer = *moving.transfer;
  const uint64_t bytes = transfer.bytes();
  uint8_t* const data = context_.messages().buffer(context_.rank(), index);
  if (!moving.side.staged && bytes != 0) {
    const HostSpan span("host copy", [&](AccessList& accesses) {
      accesses.reads(&context_.device(), moving.side.buffer.device, bytes);
    });
    std::memcpy(data, moving.side.buffer.host, bytes);
  }
  for (; moving.side.staged && moving.fetched < moving.windows; ++moving.fetched) {
    const uint64_t offset = moving.fetched * context_.chunk_bytes();
    const uint64_t part = std::min(context_.chunk_bytes(), bytes - offset);
    KEEL_RETURN_IF_ERROR(moving.stage->fetch(moving.fetched, moving.side.buffer, offset, 0, part));
    KEEL_RETURN_IF_ERROR(moving.stage->await_fetched(moving.fetched, wait_context));
    std::memcpy(data + offset, moving.stage->in(moving.fetched), part);
  }
  buffers_[index] = {true, transfer.peer, moving.sequence};
  ++buffers_in_use_;
  publish(moving, slot, 1 + index);
  finish(moving);
  return {};
}

void PointToPointTransfers::collect_buffers() {
  for (MessageBuffer& buffer : buffers_) {
    if (!buffer.in_use) continue;
    const PointToPointSlot& slot =
        context_.messages().slot(context_.rank(), buffer.peer, buffer.sequence);
    if (slot.answered.load(std::memory_order_acquire) != buffer.sequence + 1) continue;
    buffer.in_use = false;
    --buffers_in_use_;
    counters_[buffer.peer].settled[buffer.sequence % PointToPointSlots::kSlots] =
        buffer.sequence + 1;
    if (slot.answer == KEEL_OK || !buffered_failure_.ok()) continue;
    buffered_failure_ =
        slot.answer == KEEL_RANK_FAILED
            ? failure(KEEL_RANK_FAILED, "{}: its receive from rank {} was refused there: {}",
                      context_.team().name(buffer.peer), context_.rank(), status_name(slot.refusal))
            : mismatch(context_.rank(), slot.count, slot.dtype, buffer.peer, slot.wanted_count,
                       slot.wanted_dtype);
    buffered_failure_ = buffered_failure_.with_prefix("an earlier, buffered send: ");
  }
}

void PointToPointTransfers::await_receives(uint32_t peer, uint64_t receives) {
  std::atomic<uint64_t>& awaited =
      context_.messages().counters(context_.rank(), peer).awaited_sends;
  if (awaited.load(std::memory_order_relaxed) < receives) {
    awaited.store(receives, std::memory_order_release);
  }
}

// ---- sender ---------------------------------------------------------------------

void PointToPointTransfers::publish(const Moving& moving, PointToPointSlot& slot,
                                    uint32_t buffered) {
  const Transfer& transfer = *moving.transfer;
  slot.available.store(0, std::memory_order_relaxed);
  slot.taken.store(0, std::memory_order_relaxed);
  slot.count = transfer.count;
  slot.dtype = transfer.dtype;
  slot.flags = buffered == 0 && moving.side.staged ? PointToPointSlot::kStaged : 0u;
  slot.status = transfer.refused;
  slot.buffered = buffered;
  slot.memory_epoch = context_.memory_epoch();
  if (buffered == 0) slot.send = moving.side.staged ? moving.stage->place() : moving.side.place;
  slot.sequence.store(moving.sequence + 1, std::memory_order_release);
  context_.messages().notify(transfer.peer);
}

Status PointToPointTransfers::stage_windows(Moving& moving, PointToPointSlot& slot,
                                            WaitContext& wait_context) {
  const uint64_t window = context_.chunk_bytes();
  const uint64_t taken = slot.taken.load(std::memory_order_acquire);
  // Two chunks: the receiver reads one while the next is on the way.
  while (moving.fetched < std::min(moving.windows, taken + 2)) {
    const uint64_t offset = moving.fetched * window;
    const uint64_t bytes = std::min(window, moving.transfer->bytes() - offset);
    KEEL_RETURN_IF_ERROR(moving.stage->fetch(moving.fetched, moving.side.buffer, offset, 0, bytes));
    ++moving.fetched;
  }
  const uint64_t available = slot.available.load(std::memory_order_relaxed);
  for (uint64_t round = available; round < moving.fetched; ++round) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_fetched(round, wait_context));
    slot.available.store(round + 1, std::memory_order_release);
    context_.messages().notify(moving.transfer->peer);
  }
  return {};
}

Status PointToPointTransfers::advance_send(Moving& moving, PointToPointSlot& slot,
                                           WaitContext& wait_context) {
  const Transfer& transfer = *moving.transfer;
  uint64_t& settled = counters_[transfer.peer].settled[moving.sequence % PointToPointSlots::kSlots];
  if (moving.state == State::kPosting) {
    // The slot may still hold the message before the last, or an answer still to be read by a
    // further send of the group.
    if (moving.sequence >= PointToPointSlots::kSlots) {
      const uint64_t occupant = moving.sequence - PointToPointSlots::kSlots;
      if (settled != occupant + 1) collect_buffers();
      if (settled != occupant + 1) {
        await_receives(transfer.peer, occupant + 1);
        return {};
      }
    }
    moving.state = State::kMoving;
    uint32_t buffer = 0;
    if (can_buffer(moving, &buffer)) return send_buffered(moving, slot, buffer, wait_context);
    await_receives(transfer.peer, moving.sequence + 1);
    publish(moving, slot, 0);
  }
  if (slot.answered.load(std::memory_order_acquire) == moving.sequence + 1) {
    const keel_status answered = slot.answer;
    const uint64_t wanted = slot.wanted_count;
    const keel_dtype wanted_dtype = slot.wanted_dtype;
    const keel_status refused = slot.refusal;
    settled = moving.sequence + 1;
    finish(moving);
    if (answered == KEEL_OK || transfer.refused != KEEL_OK) return {};
    if (answered == KEEL_RANK_FAILED) return refusal(transfer.peer, transfer, refused);
    return mismatch(context_.rank(), transfer.count, transfer.dtype, transfer.peer, wanted,
                    wanted_dtype);
  }
  return moving.side.staged ? stage_windows(moving, slot, wait_context) : Status();
}

// ---- receiver -------------------------------------------------------------------

void PointToPointTransfers::answer(PointToPointSlot& slot, uint64_t sequence, uint32_t sender,
                                   keel_status status) {
  slot.answer = status;
  slot.answered.store(sequence + 1, std::memory_order_release);
  context_.messages().notify(sender);
}

Status PointToPointTransfers::receive_window(Moving& moving, const PointToPointSlot& slot,
                                             uint64_t window, WaitContext& wait_context) {
  const uint64_t size = context_.chunk_bytes();
  const uint64_t offset = window * size;
  const uint64_t bytes = std::min(size, moving.transfer->bytes() - offset);
  const bool is_staged = (slot.flags & PointToPointSlot::kStaged) != 0;
  const uint64_t from = is_staged ? window % 2 * size : offset;
  const char* data = nullptr;
  if (slot.buffered == 0) {
    KEEL_RETURN_IF_ERROR(context_.resolve(moving.transfer->peer, slot.send, slot.memory_epoch, from,
                                          bytes, wait_context, &data));
  } else if (slot.buffered > PointToPointSlots::kBuffers ||
             moving.transfer->bytes() > PointToPointSlots::kBufferBytes) {
    return failure(KEEL_INTERNAL, "{} names no message buffer",
                   context_.team().name(moving.transfer->peer));
  } else {
    data = reinterpret_cast<const char*>(
               context_.messages().buffer(moving.transfer->peer, slot.buffered - 1)) +
           offset;
  }
  if (!moving.side.staged) {
    const HostSpan span("host copy", [&](AccessList& accesses) {
      accesses.writes(&context_.device(), moving.side.buffer.device + offset, bytes);
    });
    std::memmove(moving.side.buffer.host + offset, data, bytes);
    context_.count_in_place(bytes);
    return {};
  }
  KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(window, wait_context));
  std::memcpy(moving.stage->out(window), data, bytes);
  return moving.stage->deliver(window, moving.side.buffer, offset, 0, bytes);
}

Status PointToPointTransfers::advance_receive(Moving& moving, PointToPointSlot& slot,
                                              WaitContext& wait_context) {
  const Transfer& transfer = *moving.transfer;
  if (slot.sequence.load(std::memory_order_acquire) != moving.sequence + 1) return {};
  moving.state = State::kMoving;
  const keel_status refused = slot.status;
  if (transfer.refused != KEEL_OK || refused != KEEL_OK) {
    slot.refusal = transfer.refused;
    finish(moving);
    answer(slot, moving.sequence, transfer.peer,
           transfer.refused != KEEL_OK ? KEEL_RANK_FAILED : KEEL_OK);
    return transfer.refused != KEEL_OK ? Status() : refusal(transfer.peer, transfer, refused);
  }
  if (slot.count != transfer.count || slot.dtype != transfer.dtype) {
    const uint64_t sent = slot.count;
    const keel_dtype sent_dtype = slot.dtype;
    slot.wanted_count = transfer.count;
    slot.wanted_dtype = transfer.dtype;
    finish(moving);
    answer(slot, moving.sequence, transfer.peer, KEEL_INVALID_ARGUMENT);
    return mismatch(transfer.peer, sent, sent_dtype, context_.rank(), transfer.count,
                    transfer.dtype);
  }
  const bool is_staged = (slot.flags & PointToPointSlot::kStaged) != 0;
  const uint64_t there =
      is_staged ? slot.available.load(std::memory_order_acquire) : moving.windows;
  while (moving.fetched < std::min(there, moving.windows)) {
    context_.yield_to_urgent();
    KEEL_RETURN_IF_ERROR(receive_window(moving, slot, moving.fetched, wait_context));
    ++moving.fetched;
    if (is_staged) {
      slot.taken.store(moving.fetched, std::memory_order_release);
      context_.messages().notify(transfer.peer);
    }
  }
  if (moving.fetched < moving.windows) return {};
  if (moving.side.staged) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(0, wait_context));
    KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(1, wait_context));
  }
  finish(moving);
  answer(slot, moving.sequence, transfer.peer, KEEL_OK);
  return {};
}

// ---- the group ------------------------------------------------------------------

void PointToPointTransfers::finish(Moving& moving) {
  moving.state = State::kDone;
  if (!moving.stage) return;
  if (moving.transfer->sends) {
    context_.messages_to_host.fetch_add(moving.transfer->bytes(), std::memory_order_relaxed);
  } else {
    context_.messages_to_device.fetch_add(moving.transfer->bytes(), std::memory_order_relaxed);
  }
  stages_.push_back(std::move(moving.stage));
}

Status PointToPointTransfers::advance(Moving& moving, WaitContext& wait_context) {
  if (moving.state == State::kDone) return {};
  const Transfer& transfer = *moving.transfer;
  const uint32_t rank = context_.rank();
  PointToPointSlot& slot = transfer.sends
                               ? context_.messages().slot(rank, transfer.peer, moving.sequence)
                               : context_.messages().slot(transfer.peer, rank, moving.sequence);
  return transfer.sends ? advance_send(moving, slot, wait_context)
                        : advance_receive(moving, slot, wait_context);
}

// Aborts if the rank and its peers wait in a cycle. While some rank is in no operation, the caller
// waits for up to a second first: that rank may still call, and show which rank is odd.
void PointToPointTransfers::end_deadlock(Look* look) {
  if (look->next && !look->next->passed()) return;
  look->next = Deadline::after(WaitPolicy::kSliceNs);
  const DeadlockDetector deadlock(context_.team(), context_.rank(), context_.sequence);
  const std::vector<uint32_t> circle = deadlock.find();
  constexpr uint32_t kMostSeen = 50;  // about a second
  if (circle.empty() || (!deadlock.are_all_there() && ++look->seen < kMostSeen)) return;
  context_.team().abort(deadlock.failure_of(circle));
}

Status PointToPointTransfers::run(const std::vector<Transfer>& transfers,
                                  WaitContext& wait_context) {
  std::vector<Moving> moving(transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Status begun = begin(transfers[i], &moving[i]);
    if (begun.ok()) continue;
    // The peers wait for messages in vain.
    const std::string name = context_.team().name(context_.rank());
    context_.team().abort(failure(KEEL_RANK_FAILED, "{}: {}", name, begun.text()));
    return begun;
  }
  if (buffers_in_use_ != 0) collect_buffers();
  only_sends_ = std::all_of(transfers.begin(), transfers.end(),
                            [](const Transfer& transfer) { return transfer.sends; });
  begin_messages(
      context_.messages(), context_.rank(), transfers,
      [&](uint32_t peer) { return counters_[peer].sent; },
      [&](uint32_t peer) { return counters_[peer].received; });
  Status first;
  const auto is_over = [&] {
    bool all_done = true;
    for (Moving& one : moving) {
      const Status status = advance(one, wait_context);
      if (!status.ok() && first.ok()) first = status;
      // A mismatch ends the single transfer; all further failures leave the peer without an answer.
      if (!status.ok() && one.state != State::kDone) {
        context_.team().abort(status.with_prefix(context_.team().name(context_.rank()) + ": "));
        return true;
      }
      all_done = all_done && one.state == State::kDone;
    }
    return all_done;
  };
  const auto waits_for = [&](uint32_t peer) {
    return std::any_of(moving.begin(), moving.end(), [&](const Moving& one) {
      return one.state != State::kDone && one.transfer->peer == peer;
    });
  };
  Look look;
  Status waited = context_.messages().await(
      context_.rank(), is_over, waits_for, [&] { end_deadlock(&look); }, wait_context);
  if (waited.code() == KEEL_TIMED_OUT && !wait_context.has_work_failed()) {
    waited = failure(KEEL_TIMED_OUT, "{} did not call in time: {}", context_.name_ranks(waits_for),
                     describe_progress_of_all(context_.team(), context_.sequence));
  }
  // After a failure the rank's messages stay visible to diagnostics: the rank does not proceed.
  if (waited.ok()) end_messages(context_.messages(), context_.rank());
  // After a failure a local peer may still read a chunk, so stages live as long as the
  // communicator.
  for (Moving& one : moving) {
    if (!one.stage) continue;
    one.stage->settle();
    stages_.push_back(std::move(one.stage));
  }
  if (!waited.ok()) return waited;
  return first;
}

}  // namespace keel
