// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/messages.h"

#include <algorithm>
#include <cstring>

#include "collectives/standstill.h"
#include "core/observer.h"

namespace keel {

Status MessageExchange::mismatch(uint32_t sender, uint64_t sent, keel_dtype sent_dtype,
                                 uint32_t receiver, uint64_t wanted,
                                 keel_dtype wanted_dtype) const {
  return failure(KEEL_INVALID_ARGUMENT, "mismatch: {} sends {} {}, {} receives {} {}",
                 context_.team().name(sender), sent, kit::dtype_name(sent_dtype),
                 context_.team().name(receiver), wanted, kit::dtype_name(wanted_dtype));
}

Status MessageExchange::refusal(uint32_t rank, const Transfer& own, keel_status code) const {
  return failure(KEEL_RANK_FAILED, "{}: its {} was refused there: {}", context_.team().name(rank),
                 own.sends ? fmt::format("receive from rank {}", context_.rank())
                           : fmt::format("send to rank {}", context_.rank()),
                 status_name(code));
}

Status MessageExchange::lease_stage(Moving& moving) {
  if (stages_.empty()) {
    moving.stage =
        std::make_unique<Stage>(context_.device(), context_.chunk_bytes(),
                                !context_.team().is_local(), context_.team().is_urgent());
  } else {
    moving.stage = std::move(stages_.back());
    stages_.pop_back();
  }
  return moving.stage->prepare(/*device_copies=*/moving.side.buffer.host == nullptr);
}

Status MessageExchange::begin(const Transfer& transfer, Moving* out_moving) {
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
  if (moving.side.staged) KEEL_RETURN_IF_ERROR(lease_stage(moving));
  const uint64_t window = context_.chunk_bytes();
  moving.windows = (transfer.bytes() + window - 1) / window;
  *out_moving = std::move(moving);
  return {};
}

// ---- sender ---------------------------------------------------------------------

Status MessageExchange::post(Moving& moving, Mail& mail) {
  const Transfer& transfer = *moving.transfer;
  mail.available.store(0, std::memory_order_relaxed);
  mail.taken.store(0, std::memory_order_relaxed);
  mail.count = transfer.count;
  mail.dtype = transfer.dtype;
  mail.flags = moving.side.staged ? Post::kSendStaged : 0u;
  mail.status = transfer.refused;
  mail.memory_epoch = context_.memory_epoch();
  mail.send = moving.side.staged ? moving.stage->place() : moving.side.place;
  mail.sequence.store(moving.sequence + 1, std::memory_order_release);
  context_.segment().notify_mail(transfer.peer);
  return {};
}

Status MessageExchange::stage_windows(Moving& moving, Mail& mail, Patience& patience) {
  const uint64_t window = context_.chunk_bytes();
  const uint64_t taken = mail.taken.load(std::memory_order_acquire);
  // Two chunks: the receiver reads one while the next is on the way.
  while (moving.fetched < std::min(moving.windows, taken + 2)) {
    const uint64_t offset = moving.fetched * window;
    const uint64_t bytes = std::min(window, moving.transfer->bytes() - offset);
    KEEL_RETURN_IF_ERROR(moving.stage->fetch(moving.fetched, moving.side.buffer, offset, 0, bytes));
    ++moving.fetched;
  }
  const uint64_t available = mail.available.load(std::memory_order_relaxed);
  for (uint64_t round = available; round < moving.fetched; ++round) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_fetched(round, patience));
    mail.available.store(round + 1, std::memory_order_release);
    context_.segment().notify_mail(moving.transfer->peer);
  }
  return {};
}

Status MessageExchange::advance_send(Moving& moving, Mail& mail, Patience& patience) {
  const Transfer& transfer = *moving.transfer;
  uint64_t& settled = counters_[transfer.peer].settled[moving.sequence % ControlSegment::kMails];
  if (moving.state == State::kPosting) {
    // The slot may still hold the message before the last, or an answer still to be read by a
    // further send of the group.
    if (moving.sequence >= ControlSegment::kMails &&
        settled != moving.sequence - ControlSegment::kMails + 1) {
      return {};
    }
    moving.state = State::kMoving;
    KEEL_RETURN_IF_ERROR(post(moving, mail));
  }
  if (mail.answered.load(std::memory_order_acquire) == moving.sequence + 1) {
    const keel_status answered = mail.answer;
    const uint64_t wanted = mail.wanted_count;
    const keel_dtype wanted_dtype = mail.wanted_dtype;
    const keel_status refused = mail.refusal;
    settled = moving.sequence + 1;
    finish(moving);
    if (answered == KEEL_OK || transfer.refused != KEEL_OK) return {};
    if (answered == KEEL_RANK_FAILED) return refusal(transfer.peer, transfer, refused);
    return mismatch(context_.rank(), transfer.count, transfer.dtype, transfer.peer, wanted,
                    wanted_dtype);
  }
  return moving.side.staged ? stage_windows(moving, mail, patience) : Status();
}

// ---- receiver -------------------------------------------------------------------

void MessageExchange::answer(Mail& mail, uint64_t sequence, uint32_t sender, keel_status status) {
  mail.answer = status;
  mail.answered.store(sequence + 1, std::memory_order_release);
  context_.segment().notify_mail(sender);
}

Status MessageExchange::receive_window(Moving& moving, const Mail& mail, uint64_t window,
                                       Patience& patience) {
  const uint64_t size = context_.chunk_bytes();
  const uint64_t offset = window * size;
  const uint64_t bytes = std::min(size, moving.transfer->bytes() - offset);
  const bool is_staged = (mail.flags & Post::kSendStaged) != 0;
  const uint64_t from = is_staged ? window % 2 * size : offset;
  const char* data = nullptr;
  KEEL_RETURN_IF_ERROR(context_.resolve(moving.transfer->peer, mail.send, mail.memory_epoch, from,
                                        bytes, patience, &data));
  if (!moving.side.staged) {
    const HostSpan span("host copy", [&](AccessList& accesses) {
      accesses.writes(&context_.device(), moving.side.buffer.device + offset, bytes);
    });
    std::memmove(moving.side.buffer.host + offset, data, bytes);
    context_.count_in_place(bytes);
    return {};
  }
  KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(window, patience));
  std::memcpy(moving.stage->out(window), data, bytes);
  return moving.stage->deliver(window, moving.side.buffer, offset, 0, bytes);
}

Status MessageExchange::advance_receive(Moving& moving, Mail& mail, Patience& patience) {
  const Transfer& transfer = *moving.transfer;
  if (mail.sequence.load(std::memory_order_acquire) != moving.sequence + 1) return {};
  moving.state = State::kMoving;
  const keel_status refused = mail.status;
  if (transfer.refused != KEEL_OK || refused != KEEL_OK) {
    mail.refusal = transfer.refused;
    finish(moving);
    answer(mail, moving.sequence, transfer.peer,
           transfer.refused != KEEL_OK ? KEEL_RANK_FAILED : KEEL_OK);
    return transfer.refused != KEEL_OK ? Status() : refusal(transfer.peer, transfer, refused);
  }
  if (mail.count != transfer.count || mail.dtype != transfer.dtype) {
    const uint64_t sent = mail.count;
    const keel_dtype sent_dtype = mail.dtype;
    mail.wanted_count = transfer.count;
    mail.wanted_dtype = transfer.dtype;
    finish(moving);
    answer(mail, moving.sequence, transfer.peer, KEEL_INVALID_ARGUMENT);
    return mismatch(transfer.peer, sent, sent_dtype, context_.rank(), transfer.count,
                    transfer.dtype);
  }
  const bool is_staged = (mail.flags & Post::kSendStaged) != 0;
  const uint64_t there =
      is_staged ? mail.available.load(std::memory_order_acquire) : moving.windows;
  while (moving.fetched < std::min(there, moving.windows)) {
    context_.give_way();
    KEEL_RETURN_IF_ERROR(receive_window(moving, mail, moving.fetched, patience));
    ++moving.fetched;
    if (is_staged) {
      mail.taken.store(moving.fetched, std::memory_order_release);
      context_.segment().notify_mail(transfer.peer);
    }
  }
  if (moving.fetched < moving.windows) return {};
  if (moving.side.staged) {
    KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(0, patience));
    KEEL_RETURN_IF_ERROR(moving.stage->await_delivered(1, patience));
  }
  finish(moving);
  answer(mail, moving.sequence, transfer.peer, KEEL_OK);
  return {};
}

// ---- the group ------------------------------------------------------------------

void MessageExchange::finish(Moving& moving) {
  moving.state = State::kDone;
  if (!moving.stage) return;
  if (moving.transfer->sends) {
    context_.messages_to_host.fetch_add(moving.transfer->bytes(), std::memory_order_relaxed);
  } else {
    context_.messages_to_device.fetch_add(moving.transfer->bytes(), std::memory_order_relaxed);
  }
  stages_.push_back(std::move(moving.stage));
}

Status MessageExchange::advance(Moving& moving, Patience& patience) {
  if (moving.state == State::kDone) return {};
  const Transfer& transfer = *moving.transfer;
  const uint32_t rank = context_.rank();
  Mail& mail = transfer.sends ? context_.segment().mail(rank, transfer.peer, moving.sequence)
                              : context_.segment().mail(transfer.peer, rank, moving.sequence);
  return transfer.sends ? advance_send(moving, mail, patience)
                        : advance_receive(moving, mail, patience);
}

// Aborts if the rank and its peers wait in a cycle. Delayed unless all ranks are in an operation:
// more ranks may still come, and show which rank is odd.
void MessageExchange::end_standstill(Look* look) {
  if (look->next && !look->next->passed()) return;
  look->next = Deadline::after(Patience::kSliceNs);
  const Standstill standstill(context_.team(), context_.rank(), context_.sequence);
  const std::vector<uint32_t> circle = standstill.find();
  constexpr uint32_t kMostSeen = 50;  // about a second
  if (circle.empty() || (!standstill.are_all_there() && ++look->seen < kMostSeen)) return;
  context_.team().abort(standstill.failure_of(circle));
}

Status MessageExchange::run(const std::vector<Transfer>& transfers, Patience& patience) {
  std::vector<Moving> moving(transfers.size());
  for (size_t i = 0; i < transfers.size(); ++i) {
    const Status begun = begin(transfers[i], &moving[i]);
    if (begun.ok()) continue;
    // The peers wait for messages in vain.
    const std::string name = context_.team().name(context_.rank());
    context_.team().abort(failure(KEEL_RANK_FAILED, "{}: {}", name, begun.text()));
    return begun;
  }
  ControlSegment& segment = context_.segment();
  begin_messages(
      segment, context_.rank(), transfers, [&](uint32_t peer) { return counters_[peer].sent; },
      [&](uint32_t peer) { return counters_[peer].received; });
  Status first;
  const auto is_over = [&] {
    bool all_done = true;
    for (Moving& one : moving) {
      const Status status = advance(one, patience);
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
  Status waited = segment.await_mail(
      context_.rank(), is_over, waits_for, [&] { end_standstill(&look); }, patience);
  if (waited.code() == KEEL_TIMED_OUT) {
    waited = failure(KEEL_TIMED_OUT, "{} did not call in time: {}", context_.name_ranks(waits_for),
                     describe_standings(context_.team(), context_.sequence));
  }
  // After a failure the rank's messages stay visible to diagnostics: the rank does not proceed.
  if (waited.ok()) end_messages(segment, context_.rank());
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
