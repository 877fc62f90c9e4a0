// SPDX-License-Identifier: Apache-2.0
#include "collectives/runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "collectives/algorithms/eager.h"
#include "collectives/algorithms/one_shot.h"
#include "collectives/hierarchical/hierarchical.h"

namespace keel {

Status Runner::run(const Request& request, const Status& ready, FlightRecorder::Entry* entry,
                   WaitContext& wait_context, std::optional<uint64_t> published,
                   const Sides& sides) {
  if (request.collective == KEEL_SEND_RECV)
    return run_messages(request, ready, entry, wait_context);
  return run_collective(request, ready, entry, wait_context, published, sides);
}

Status Runner::refuse(const Request& request, const Status& why, FlightRecorder::Entry* entry,
                      WaitContext& wait_context) {
  if (request.collective == KEEL_SEND_RECV) {
    return tell_refused(request.transfers, why, entry, wait_context);
  }
  OperationBoard& board = context_.board();
  const uint64_t sequence = context_.sequence++;
  Status status = board.await_room(sequence, wait_context);
  if (status.ok()) {
    write_descriptor(request, sequence, why, {});
    board.publish(context_.rank(), sequence);
    FlightRecorder::start(entry);
    // Waits, since the data of the rank's next descriptor overwrites data still read by the peers.
    // A leaving rank has no next descriptor.
    status = board.await_descriptors(sequence, wait_context);
    if (!status.ok() && !wait_context.cancelled())
      status = context_.await_descriptors(sequence, wait_context);
  } else if (!wait_context.cancelled()) {
    context_.failures().abort(status);
  }
  if (status.ok()) status = compare(sequence, request.print, why);
  board.publish_done(context_.rank(), sequence, context_.team().is_urgent());
  return status;
}

Status Runner::tell_refused(const std::vector<Transfer>& transfers, const Status& why,
                            FlightRecorder::Entry* entry, WaitContext& wait_context) {
  FlightRecorder::start(entry);
  const Status status = messages_.run(transfers, wait_context);
  if (status.ok() || wait_context.cancelled()) return why;
  context_.team().abort(status.with_prefix("send_recv: "));
  return status;
}

bool Runner::is_native(const Request& request) const {
  return islands_ != nullptr && !request.keeps_off_library && islands_->takes(request);
}

bool Runner::fetch_now(const Request& request, Sides* sides, WaitContext& wait_context) {
  if (!sides->send.staged) return true;
  const uint64_t sequence = context_.sequence;
  if (!context_.board().has_room(sequence)) return false;
  DirectAlgorithm direct(context_, request, sequence, sides->send, sides->receive, wait_context);
  sides->fetched = direct.start(/*is_fetched=*/false).ok();
  return sides->fetched;
}

bool Runner::publish_now(const Request& request, const Sides& sides,
                         std::optional<uint64_t>* out_published) {
  const uint64_t sequence = context_.sequence;
  if (!context_.board().has_room(sequence)) return false;
  write_descriptor(request, sequence, {}, sides);
  context_.board().publish_ahead(context_.rank(), sequence);
  ++context_.sequence;
  *out_published = sequence;
  return true;
}

bool Runner::match_now(const Request& request, uint64_t published, uint32_t turns,
                       uint64_t eager_bytes) {
  return context_.board().poll_published(context_.rank(), published, turns, eager_bytes) &&
         compare(published, request.print, {}).ok();
}

bool Runner::publish_eager(const Request& request, const EagerBuffers& buffers,
                           std::optional<uint64_t>* out_published) {
  const uint64_t sequence = context_.sequence;
  if (!context_.board().has_room(sequence)) return false;
  if (buffers.send_bytes != 0) {
    fill_eager(context_, request, sequence, buffers.send, buffers.send_bytes);
  }
  write_descriptor_head(request, sequence, KEEL_OK, /*flags=*/0);
  context_.board().publish_ahead(context_.rank(), sequence);
  ++context_.sequence;
  *out_published = sequence;
  context_.count_in_place(buffers.send_bytes);
  return true;
}

bool Runner::try_eager(const Request& request, const EagerBuffers& buffers, uint64_t published,
                       uint32_t turns) {
  if (!match_now(request, published, turns, buffers.send_bytes)) return false;
  if (buffers.receive_bytes != 0) {
    compute_eager(context_, request, published, buffers.receive);
    context_.count_in_place(buffers.receive_bytes);
  }
  context_.board().publish_done(context_.rank(), published, context_.team().is_urgent());
  return true;
}

Status Runner::run_messages(const Request& request, const Status& ready,
                            FlightRecorder::Entry* entry, WaitContext& wait_context) {
  if (!ready.ok()) {
    std::vector<Transfer> refused = request.transfers;
    refuse_all(&refused, ready);
    return tell_refused(refused, ready, entry, wait_context);
  }
  FlightRecorder::start(entry);
  Status status;
  {
    const Team::Act act(context_.team());
    if (!act.may()) return context_.failures().status();
    status = messages_.run(request.transfers, wait_context);
  }
  // As in run_collective(): a remote sender may have stopped waiting for this rank. A peer that
  // knew of the failure first may have refused the message, with a code and without the cause.
  const bool may_follow =
      status.ok() ? !context_.team().is_local() : status.code() == KEEL_RANK_FAILED;
  if (may_follow && context_.failures().failed()) status = context_.failures().status();
  // Two statuses end this operation alone: a peer refused the message, or the two calls differ.
  const bool is_over =
      status.ok() ||
      ((status.code() == KEEL_INVALID_ARGUMENT || status.code() == KEEL_RANK_FAILED) &&
       !context_.failures().failed());
  if (is_over) return status.ok() ? messages_.take_buffered_failure() : status;
  // The caller knows the cause, and ends the communicator.
  if (wait_context.has_work_failed()) return status;
  // The peers wait for messages in vain.
  status = status.with_prefix("send_recv: ");
  context_.team().abort(status);
  context_.team().await_acts();
  return status;
}

Status Runner::make_sides(const Request& request, Sides* out_sides) {
  const uint32_t world = context_.world();
  const uint32_t rank = context_.rank();
  const bool eager = request.algorithm == Algorithm::kEager;
  const bool stepped = is_stepped(request.algorithm);
  bool shares =
      stepped ? plan_.reads_receive : !eager && DirectAlgorithm::shares_result(request, rank);
  const uint64_t send_bytes = request.send_bytes(rank, world);
  const bool may_copy = may_copy_one_shot(context_, request);
  if (may_copy) {
    KEEL_RETURN_IF_ERROR(context_.make_side(request.send, send_bytes, true, &out_sides->send,
                                            /*attachable=*/true));
    // Then every rank copies, and no rank reads a remote result.
    shares = !out_sides->send.attached;
  }
  KEEL_RETURN_IF_ERROR(context_.make_side(request.receive, request.receive_bytes(rank, world),
                                          shares, &out_sides->receive));
  if (stepped && plan_.work_parts != 0) {
    KEEL_RETURN_IF_ERROR(context_.make_work(&out_sides->work));
  }
  if (shares && !stepped && out_sides->receive.bytes == 0 && request.count != 0) {
    KEEL_RETURN_IF_ERROR(context_.make_scratch(&out_sides->receive));
  }
  if (may_copy) return {};
  const bool is_exchange =
      request.collective == KEEL_ALL_TO_ALL || request.collective == KEEL_ALL_TO_ALL_V;
  if (is_exchange && send_bytes != 0 && request.send == request.receive && !eager) {
    // Where the host reaches the buffer, received data would overwrite data still to be read by the
    // peers. Pinned memory is in reach also on devices without a host alias.
    Side original;
    KEEL_RETURN_IF_ERROR(context_.make_side(request.send, send_bytes, false, &original));
    if (original.buffer.host != nullptr) {
      KEEL_RETURN_IF_ERROR(context_.device().memory().alloc(
          context_.has_alias() ? KEEL_MEMORY_DEVICE : KEEL_MEMORY_PINNED, send_bytes,
          &out_sides->scratch));
      KEEL_RETURN_IF_ERROR(
          context_.make_side(out_sides->scratch, send_bytes, true, &out_sides->send));
      std::memcpy(out_sides->send.buffer.host, original.buffer.host, send_bytes);
      return {};
    }
  }
  const bool attachable = request.algorithm == Algorithm::kDirect &&
                          request.foreign == ForeignWay::kAttach && !reduces(request.collective);
  return context_.make_side(request.send, send_bytes, !eager, &out_sides->send, attachable);
}

OperationDescriptor& Runner::write_descriptor_head(const Request& request, uint64_t sequence,
                                                   keel_status status, uint32_t flags) {
  OperationDescriptor& descriptor = context_.board().descriptor(context_.rank(), sequence);
  descriptor.fingerprint = request.print;
  descriptor.factor = request.factor;
  descriptor.status = status;
  descriptor.flags = flags | context_.call_flags();
  context_.write_link(&descriptor);
  context_.attach().tell(context_.board(), sequence, &descriptor);
  return descriptor;
}

void Runner::write_descriptor(const Request& request, uint64_t sequence, const Status& ready,
                              const Sides& sides, uint32_t more_flags) {
  OperationDescriptor& descriptor = write_descriptor_head(
      request, sequence, ready.code(),
      (sides.send.staged ? OperationDescriptor::kSendStaged : 0u) |
          (sides.send.attached ? OperationDescriptor::kSendAttached : 0u) |
          (sides.receive.staged ? OperationDescriptor::kReceiveStaged : 0u) |
          (request.send == request.receive ? OperationDescriptor::kInPlace : 0u) | more_flags);
  if (request.algorithm != Algorithm::kEager) {  // eager data is in the descriptor
    descriptor.send = sides.send.place;
    descriptor.receive = sides.receive.place;
    descriptor.work = sides.work;
    descriptor.largest = request.largest_piece();
    descriptor.memory_epoch = context_.memory_epoch();
  }
  if (!ready.ok()) {
    const size_t size = std::min(std::strlen(ready.text()), sizeof(descriptor.text) - 1);
    std::memcpy(descriptor.text, ready.text(), size);
    descriptor.text[size] = '\0';
  }
}

Status Runner::compare(uint64_t sequence, const Fingerprint& print, const Status& ready) {
  OperationBoard& board = context_.board();
  if (context_.team().is_urgent()) board.publish_matched(sequence);
  bool all_equal = true;
  uint32_t flags = 0;
  uint32_t other_calls = 0;
  uint32_t failed = ready.ok() ? UINT32_MAX : context_.rank();
  for (uint32_t rank = 0; rank < context_.world(); ++rank) {
    if (rank == context_.rank()) continue;
    const OperationDescriptor& descriptor = board.descriptor(rank, sequence);
    all_equal = all_equal && descriptor.fingerprint == print;
    flags |= descriptor.flags;
    other_calls |= (descriptor.flags ^ context_.call_flags()) >> OperationDescriptor::kCallShift;
    if (descriptor.status != KEEL_OK && failed == UINT32_MAX) failed = rank;
  }
  if ((flags & OperationDescriptor::kWantsAttach) != 0) context_.attach().wake(sequence);
  if (all_equal && failed == UINT32_MAX && other_calls == 0) [[likely]] {
    return {};
  }
  if (other_calls != 0) return context_.check_calls(sequence);
  if (!ready.ok()) return ready;
  if (failed != UINT32_MAX) {
    // Perhaps by an abort: the rank's stream has failed, and the rank publishes its remaining
    // operations.
    if (context_.failures().failed()) return context_.failures().status();
    return context_.published_status(failed, sequence);
  }
  std::vector<Fingerprint> fingerprints;
  for (uint32_t rank = 0; rank < context_.world(); ++rank) {
    fingerprints.push_back(board.descriptor(rank, sequence).fingerprint);
  }
  return check_fingerprints(fingerprints);
}

Status Runner::act(const Request& request, uint64_t sequence, const Sides& sides,
                   DirectAlgorithm& direct, StepsAlgorithm& steps, WaitContext& wait_context) {
  const Team::Act act(context_.team());
  if (!act.may()) return context_.failures().status();
  if (request.algorithm == Algorithm::kEager) {
    return finish_eager(context_, request, sequence, sides.receive, wait_context);
  }
  const auto begin = std::chrono::steady_clock::now();
  OperationPath way;
  if (is_stepped(request.algorithm)) {
    KEEL_RETURN_IF_ERROR(steps.run());
    way = steps.way();
  } else if (const bool copies = does_copy_one_shot(context_, request, sequence);
             copies || can_one_shot(context_, request, sequence, sides.send, sides.receive)) {
    KEEL_RETURN_IF_ERROR((copies ? run_copying_one_shot : run_one_shot)(
        context_, request, sequence, sides.send, sides.receive, wait_context));
    way.algorithm = algorithm_name(Algorithm::kOneShot);
    way.round_bytes = request.count * request.element();
  } else {
    return direct.run();  // records its own rounds
  }
  context_.tell_exchange(request, sides.send, sides.receive, way, begin);
  return {};
}

Status Runner::act_native(const Request& request, WaitContext& wait_context) {
  const Team::Act act(context_.team());
  if (!act.may()) return context_.failures().status();
  const auto begin = std::chrono::steady_clock::now();
  KEEL_RETURN_IF_ERROR(islands_->run(request, wait_context));
  OperationPath way;
  way.algorithm = "native";
  way.round_bytes = request.largest_piece() * request.element();
  way.is_native = true;
  context_.tell_exchange(request, {}, {}, way, begin);
  return {};
}

Status Runner::run_collective(const Request& request, const Status& ready,
                              FlightRecorder::Entry* entry, WaitContext& wait_context,
                              std::optional<uint64_t> published, const Sides& published_sides) {
  OperationBoard& board = context_.board();
  const uint32_t rank = context_.rank();
  const uint64_t sequence = published ? *published : context_.sequence++;
  const bool native = is_native(request);
  const bool eager = !native && request.algorithm == Algorithm::kEager;
  const bool stepped = !native && is_stepped(request.algorithm);
  Status status = board.await_room(sequence, wait_context);
  if (!status.ok()) {
    if (!wait_context.has_work_failed()) context_.failures().abort(status);
    return status;
  }
  // The peers read the arrays until the operation is complete, and this rank waits for them.
  if (request.collective == KEEL_ALL_TO_ALL_V) {
    uint64_t* layout = board.layout(rank);
    for (const Piece& piece : request.send_pieces) {
      *layout++ = piece.offset;
      *layout++ = piece.count;
    }
  }
  Sides sides;
  Status able = ready;
  if (stepped) make_step_plan(request, rank, context_.world(), &plan_);
  if (published) {
    sides = published_sides;
  } else if (able.ok() && !native) {
    able = make_sides(request, &sides);
  }
  if (able.ok() && eager && !published) {
    able = write_eager(context_, request, sequence, sides.send, wait_context);
  }
  DirectAlgorithm direct(context_, request, sequence, sides.send, sides.receive, wait_context);
  StepsAlgorithm steps(context_, request, sequence, sides.send, sides.receive, plan_, wait_context);
  if (able.ok() && !eager && !native) able = stepped ? steps.start() : direct.start(sides.fetched);
  if (!published) {
    write_descriptor(request, sequence, able, sides, direct.descriptor_flags());
    board.publish(rank, sequence);
    FlightRecorder::start(entry);
  }
  status = context_.await_descriptors(sequence, wait_context);
  if (status.ok()) status = compare(sequence, request.print, able);
  if (status.ok()) {
    status = native ? act_native(request, wait_context)
                    : act(request, sequence, sides, direct, steps, wait_context);
    if (wait_context.has_work_failed()) {
      // The caller knows the cause, and ends the communicator.
    } else if (!status.ok()) {
      if (!context_.failures().failed()) {
        status = status.with_prefix(fmt::format("{}: ", context_.team().name(rank)));
      }
      context_.failures().abort(status);
    } else if (!context_.team().is_local() && context_.failures().failed()) {
      // If a rank of a remote process has failed, a third rank may have returned the buffer to its
      // caller while this rank still read it.
      status = context_.failures().status();
    }
  }
  // Also after a mismatch of the calls: the source of staged data is the caller's again.
  if (!status.ok()) context_.stage().settle();
  if (context_.failures().failed()) context_.team().await_acts();
  board.publish_done(rank, sequence, context_.team().is_urgent());
  if (sides.scratch != nullptr) context_.device().memory().free(sides.scratch).ok();
  if (status.ok() || wait_context.has_work_failed()) return status;
  return status.with_prefix(
      fmt::format("{}, operation {}: ", collective_name(request.collective), sequence));
}

}  // namespace keel
