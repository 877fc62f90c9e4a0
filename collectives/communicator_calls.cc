// SPDX-License-Identifier: Apache-2.0
// Calls of a rank: an operation runs within the call, or is left to the worker thread.
//
//                               a call
//        +-------------------------+------------------+--------------------+
//   as remembered:            any other:         not valid, or        a lone rank on
//   try_fast_path()           enqueue()          no memory:           staged memory:
//        |                         |             refuse()             copy_alone()
//        +------------+------------+                  |                    |
//                     v                               |                    v
//                  CALLED -----------------------+    |               a copy on the stream
//                     | its turn has come, it is | else
//                     | short, and there is room |    |
//                     | for the descriptor       |    |
//                     v                          |    |
//                 PUBLISHED ---------------------+    |
//                     | all ranks publish the    | else
//                     | same call within the     |    |
//                     | turns of AdaptiveSpin    |    |
//                     v                          v    v
//            DONE, within the call             QUEUED, behind a closed gate of the stream
//                                                | (a refused call: behind none)
//                                                | run_next() on the worker thread, or, for a
//                                                | thread that waits for the stream, in help()
//                                                v
//                                              RUNNING: run()
//                                                | refused     publishes why, and waits until the
//                                                |             peers have called
//                                                | CALLED      waits for its buffers, publishes
//                                                | PUBLISHED   goes on
//                                                | Matches, then acts: an algorithm of Keel's or a
//                                                | native library (Runner), messages between hosts
//                                                | (HostRunner)
//                                                v
//                                              DONE: the last operation behind a gate opens it
//
// Only collectives of one host reach PUBLISHED within the call (may_run_now()). The calls of a
// group come here when the group ends (GroupCall). A communicator that has failed, or that the rank
// has left, returns the failure at once.
#include <algorithm>
#include <new>

#include "collectives/algorithms/eager.h"
#include "collectives/call_check.h"
#include "collectives/communicator.h"
#include "collectives/reduce/reduce.h"
#include "core/observer.h"

namespace keel {

namespace {

// Largest buffer of an operation within the call. 1 MiB takes some 70 us on two cores; on the
// worker thread, perhaps on a different core than the operation before, up to half as much more.
constexpr uint64_t kMostWithinCall = 1 << 20;

}  // namespace

Status Communicator::check(const Request& request, const Ref<Stream>& stream) const {
  KEEL_RETURN_IF_ERROR(check_call(request, *device_, *stream, rank(), world()));
  if (islands_ == nullptr || !runner_.is_native(request)) return {};
  // Not every library takes host memory, and the ranks have agreed on the library already.
  for (const void* const buffer : {request.send, static_cast<const void*>(request.receive)}) {
    Allocation allocation;
    if (buffer == nullptr || !device_->memory().find(buffer, &allocation)) continue;
    if (allocation.kind != KEEL_MEMORY_PINNED) continue;
    return failure(KEEL_UNSUPPORTED,
                   "{} is pinned memory, and a native library runs this {}: set forbid_native",
                   buffer == request.send ? "send" : "receive",
                   collective_name(request.collective));
  }
  return {};
}

Status Communicator::enqueue(Request request, const Ref<Stream>& stream) {
  try {
    return enqueue_checked(request, stream);
  } catch (const std::bad_alloc&) {
    return refuse(std::move(request), Status::no_memory());  // not counted yet
  }
}

Status Communicator::enqueue_checked(Request& request, const Ref<Stream>& stream) {
  const Status able = check(request, stream);
  if (!able.ok()) return refuse(std::move(request), able);
  Endpoint to;
  Endpoint from;
  if (world() == 1 && is_copy(request, &to, &from)) return copy_alone(request, *stream, to, from);
  request.algorithm = hosts_ ? hosts_->choose(request) : selection_.choose(request, world());
  if (!hosts_ &&
      (request.algorithm == Algorithm::kDirect || request.algorithm == Algorithm::kOneShot)) {
    request.foreign = selection_.choose_foreign(request, world());
  }
  request.print = request.fingerprint();
  if (context_.failures().failed()) return context_.failures().status();
  std::unique_lock lock(mutex_);
  if (stopping_) return failure(KEEL_ABORTED, "rank {} left the communicator", rank());
  if (request.collective != KEEL_SEND_RECV) ++calls_;
  return enqueue_locked(lock, std::move(request), stream);
}

// Memory that the host reaches needs no path of its own: nothing of it is staged.
bool Communicator::is_copy(const Request& request, Endpoint* out_to, Endpoint* out_from) const {
  if (request.count == 0 || request.reduction == KEEL_PREMUL_SUM) return false;
  switch (request.collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_REDUCE:
    case KEEL_BROADCAST:
    case KEEL_ALL_GATHER:
    case KEEL_REDUCE_SCATTER:
    case KEEL_GATHER:
    case KEEL_SCATTER:
    case KEEL_ALL_TO_ALL:
      break;
    default:
      return false;
  }
  bool is_staged = false;
  const auto find = [&](const void* pointer) {
    Allocation allocation;
    if (!device_->memory().find(pointer, &allocation)) return Endpoint();
    if (allocation.kind != KEEL_MEMORY_DEVICE) return Endpoint();
    is_staged = is_staged || allocation.host_alias == nullptr || !context_.has_alias();
    return Endpoint{device_.get(), nullptr};
  };
  *out_to = find(request.receive);
  *out_from = find(request.send);
  out_to->pointer = request.receive;
  out_from->pointer = const_cast<void*>(request.send);
  return is_staged;
}

Status Communicator::copy_alone(const Request& request, Stream& stream, const Endpoint& to,
                                const Endpoint& from) {
  FlightRecorder::Entry* entry = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (context_.failures().failed()) return context_.failures().status();
    if (stopping_) return failure(KEEL_ABORTED, "rank {} left the communicator", rank());
    ++calls_;
    ++operations_;
    entry = record(request);
    FlightRecorder::start(entry);
  }
  Status status;
  if (to.pointer != from.pointer) {
    status = submit_direct_copy(stream, to, from, request.receive_bytes(rank(), world()));
  }
  FlightRecorder::finish(entry, status.code());
  return status;
}

Status Communicator::enqueue_locked(std::unique_lock<std::mutex>& lock, Request request,
                                    const Ref<Stream>& stream) {
  Begun begun;
  Sides sides;
  try {
    Status status;
    const CallState state = may_run_now(request, *stream)
                                ? begin_now(lock, request, stream, &begun, &sides, &status)
                                : CallState::kCalled;
    if (state == CallState::kDone) return status;
  } catch (const std::bad_alloc&) {
    if (begun.published) {
      FlightRecorder::finish(begun.entry, KEEL_OUT_OF_MEMORY);
      give_up_published(Status::no_memory());
    } else {
      refuse_locked(std::move(request), begun.entry, Status::no_memory());
    }
    return Status::no_memory();
  }
  return leave_locked(std::move(request), begun, sides, stream);
}

CallState Communicator::begin_now(std::unique_lock<std::mutex>& lock, const Request& request,
                                  const Ref<Stream>& stream, Begun* out_begun, Sides* out_sides,
                                  Status* out_status) {
  if (request.algorithm != Algorithm::kEager) {
    out_begun->entry = record(request);
    return run_now_unlocked(lock, request, stream, out_begun, out_sides, out_status);
  }
  if (request.reduction != KEEL_PREMUL_SUM && !request.called.is_set) {
    known_.remember(request, rank(), world());
  }
  if (!runner_.make_sides(request, out_sides).ok()) return CallState::kCalled;
  const EagerBuffers buffers = {out_sides->send.buffer.host, out_sides->receive.buffer.host,
                                out_sides->send.bytes, out_sides->receive.bytes};
  return run_now(request, buffers, out_begun);
}

bool Communicator::try_fast_path(const CallArguments& arguments, const void* send, void* receive,
                                 Stream& stream, const BlockLookupCache& cache,
                                 Status* out_status) {
  if (&stream.device() != device_.get() || !stream.is_known_quiet()) return false;
  std::lock_guard lock(mutex_);
  const CachedCall* known = known_.find(arguments);
  if (known == nullptr || !queue_.empty() || running_ || stopping_) return false;
  void* const from = host_address(*device_, cache, const_cast<void*>(send), known->send_bytes);
  const EagerBuffers buffers = {
      from,
      host_address(*device_, cache, receive, known->receive_bytes, send, from, known->send_bytes),
      known->send_bytes, known->receive_bytes};
  if ((buffers.send == nullptr && buffers.send_bytes != 0) ||
      (buffers.receive == nullptr && buffers.receive_bytes != 0) ||
      !known->may_have(send, receive) || context_.failures().failed()) {
    return false;
  }
  ++calls_;
  Begun begun;
  if (run_now(known->request, buffers, &begun) == CallState::kDone) [[likely]] {
    return true;
  }
  Request request = known->request;
  request.send = send;
  request.receive = receive;
  Sides sides;
  sides.send = Side::on_host(buffers.send, send, buffers.send_bytes);
  sides.receive = Side::on_host(buffers.receive, receive, buffers.receive_bytes);
  *out_status = leave_locked(std::move(request), begun, sides, Ref<Stream>(&stream));
  return true;
}

Status Communicator::leave_locked(Request request, const Begun& begun, const Sides& sides,
                                  const Ref<Stream>& stream) {
  FlightRecorder::Entry* const entry = begun.entry != nullptr ? begun.entry : record(request);
  Operation operation;
  Status held;
  try {
    if (!begun.published) operation.allocations.keep(device_->memory(), request);
  } catch (const std::bad_alloc&) {
    held = Status::no_memory();
  }
  if (held.ok()) held = hold_locked(request.collective, stream, &operation.ready);
  if (!held.ok()) {
    if (!begun.published) {
      refuse_locked(std::move(request), entry, held);
      return held;
    }
    FlightRecorder::finish(entry, held.code());
    // The peers have the descriptor of an operation without this rank's further part.
    give_up_published(held);
    return held;
  }
  // The operation's turn had come: work put on the stream since then is not waited for.
  if (begun.published) operation.ready = {};
  ++hold_->pending;
  operation.hold = hold_;
  operation.entry = entry;
  operation.published = begun.published;
  operation.sides = sides;
  operation.timeout_ns = timeout_of_call();
  operation.request = std::move(request);
  push_locked(std::move(operation));
  return {};
}

Status Communicator::refuse(Request request, const Status& why) {
  if (request.collective == KEEL_SEND_RECV) {
    std::erase_if(request.transfers, [&](const Transfer& one) { return one.peer >= world(); });
    if (request.transfers.empty()) return why;  // no peer waits
  }
  request.print = request.fingerprint();
  std::lock_guard lock(mutex_);
  if (stopping_ || context_.failures().failed()) return why;
  if (request.collective != KEEL_SEND_RECV) ++calls_;
  refuse_locked(std::move(request), nullptr, why);
  return why;
}

Status Communicator::refuse_split(const Status& why) {
  Request request;
  request.collective = kSplitCollective;
  return refuse(std::move(request), why);
}

void Communicator::refuse_locked(Request request, FlightRecorder::Entry* entry, const Status& why) {
  if (entry == nullptr) entry = record(request);
  // The call returns |why|, and the memory is the caller's again: no message may move data.
  refuse_all(&request.transfers, why);
  try {
    make_ready_locked();
  } catch (const std::exception&) {  // no memory, or no thread, to inform the others
    FlightRecorder::finish(entry, why.code());
    return give_up(why);
  }
  Operation operation;
  operation.entry = entry;
  operation.refused = why;
  operation.timeout_ns = timeout_of_call();
  operation.request = std::move(request);
  push_locked(std::move(operation));
}

FlightRecorder::Entry* Communicator::record(const Request& request) {
  const bool has_messages = request.collective == KEEL_SEND_RECV && !request.transfers.empty();
  return recorder_->begin(called_++, told_print(request),
                          has_messages ? request.transfers.front().count : request.called_count());
}

Status Communicator::hold_locked(keel_collective collective, const Ref<Stream>& stream,
                                 Ref<EventRecord>* out_ready) {
  try {
    if (!stopping_) make_ready_locked();  // else no operation runs any more
    const bool follows = hold_ && hold_->pending != 0 && hold_->stream == stream.get() &&
                         !observers::active() && stream->ends_behind(*hold_->gate);
    if (follows) return {};
    auto hold = make_ref<HeldStream>(
        make_ref<Gate>(collective_name(collective), Ref<GateOwner>(this)), *stream);
    KEEL_RETURN_IF_ERROR(stream->hold(hold->gate, out_ready));
    hold_ = std::move(hold);
    return {};
  } catch (const std::bad_alloc& error) {
    return Status::no_memory(error);
  }
}

bool Communicator::may_run_now(const Request& request, Stream& stream) const {
  return !hosts_ && request.collective != KEEL_SEND_RECV && queue_.empty() && !running_ &&
         context_.has_alias() && is_short(request) && !runner_.is_native(request) &&
         !observers::active() && stream.is_known_idle();
}

bool Communicator::is_short(const Request& request) const {
  if (request.algorithm == Algorithm::kEager) return true;
  if (request.algorithm != Algorithm::kDirect && request.algorithm != Algorithm::kOneShot) {
    return false;
  }
  // Excludes arrays, staging pipelines, and in-place exchanges with a copy of the overwritten data.
  return !has_arrays(request.collective) && !context_.any_staged() &&
         (request.collective != KEEL_ALL_TO_ALL || request.send != request.receive) &&
         std::max(request.send_bytes(rank(), world()), request.receive_bytes(rank(), world())) <=
             kMostWithinCall;
}

CallState Communicator::run_now(const Request& request, const EagerBuffers& buffers,
                                Begun* out_begun) {
  context_.call = calls_;
  if (!runner_.publish_eager(request, buffers, &out_begun->published)) return CallState::kCalled;
  // Runs while the descriptors of the ranks travel between cores.
  out_begun->entry = record(request);
  FlightRecorder::start_at_once(out_begun->entry);
  const bool is_done = runner_.try_eager(request, buffers, *out_begun->published, spin_.turns());
  spin_.note(is_done);
  if (!is_done) return CallState::kPublished;
  FlightRecorder::finish(out_begun->entry, KEEL_OK);
  ++operations_;
  return CallState::kDone;
}

CallState Communicator::run_now_unlocked(std::unique_lock<std::mutex>& lock, const Request& request,
                                         const Ref<Stream>& stream, Begun* begun, Sides* out_sides,
                                         Status* out_status) {
  // A thread with several ranks goes on to call for the next rank.
  if (team().note_caller(rank())) return CallState::kCalled;
  Sides& sides = *out_sides;
  WaitContext wait_context(timeout_of_call(), cancelled_);
  if (!runner_.make_sides(request, &sides).ok() ||
      !runner_.fetch_now(request, &sides, wait_context)) {
    return CallState::kCalled;
  }
  context_.call = calls_;
  if (!runner_.publish_now(request, sides, &begun->published)) return CallState::kCalled;
  FlightRecorder::start_at_once(begun->entry);
  const bool is_matched = runner_.match_now(request, *begun->published, spin_.turns());
  spin_.note(is_matched);
  if (!is_matched) return CallState::kPublished;
  running_ = true;
  ++taken_;
  ++undecided_;
  lock.unlock();
  const Status status = guarded([&] {
    return runner_.run(request, {}, begun->entry, wait_context, begun->published, sides);
  });
  FlightRecorder::finish(begun->entry, status.code());
  lock.lock();
  ++operations_;
  --undecided_;
  if (!status.ok()) {
    *out_status = fail(lock, request.collective, stream, status);
    if (!lock.owns_lock()) lock.lock();
  }
  stop_running(/*was_taken=*/true);
  return CallState::kDone;
}

Status Communicator::fail(std::unique_lock<std::mutex>& lock, keel_collective collective,
                          const Ref<Stream>& stream, const Status& status) {
  Ref<EventRecord> ignored;
  KEEL_RETURN_IF_ERROR(hold_locked(collective, stream, &ignored));
  if (hold_->status.ok()) hold_->status = status;
  if (hold_->pending != 0) return {};  // the last operation of the gate opens it
  const Ref<HeldStream> hold = std::move(hold_);
  lock.unlock();
  WakeList wake;
  hold->gate->open(hold->status, wake);
  advance_all(wake);
  return {};
}

// ---- registered memory -----------------------------------------------------------

namespace {

// Returns whether |operation| of |rank|, one of |world| ranks, uses host memory in [begin, end).
bool uses(const Operation& operation, const Memory& memory, uint32_t rank, uint32_t world,
          uintptr_t begin, uintptr_t end) {
  const auto overlaps = [&](const void* pointer, uint64_t bytes) {
    if (pointer == nullptr || bytes == 0) return false;
    auto address = reinterpret_cast<uintptr_t>(pointer);
    Allocation allocation;
    // Other memory is the caller's, with the same address for the host and the device.
    if (operation.allocations.find(pointer, &allocation) || memory.find(pointer, &allocation)) {
      if (allocation.host_alias == nullptr) return false;
      address += reinterpret_cast<uintptr_t>(allocation.host_alias) -
                 reinterpret_cast<uintptr_t>(allocation.base);
    }
    return address < end && begin < address + bytes;
  };
  const Request& request = operation.request;
  for (const Transfer& transfer : request.transfers) {
    const void* const pointer = transfer.sends ? transfer.source : transfer.destination;
    if (overlaps(pointer, transfer.bytes())) return true;
  }
  if (request.collective == KEEL_SEND_RECV) return false;
  return overlaps(request.send, request.send_bytes(rank, world)) ||
         overlaps(request.receive, request.receive_bytes(rank, world));
}

}  // namespace

Status Communicator::check_unused(const Device& device, uintptr_t begin, uintptr_t end) const {
  // One of two ranks may have its sums made by the other's device, which reads its memory.
  const Team& team = context_.team();
  const bool is_reached =
      device_.get() == &device ||
      (context_.may_sum_on_device() && team.peer_info(1 - context_.rank()).device == device.name());
  if (!is_reached) return {};
  std::lock_guard lock(mutex_);
  const auto check = [&](const Operation& operation) -> Status {
    if (operation.task || !operation.refused.ok()) return {};
    if (!uses(operation, device_->memory(), rank(), world(), begin, end)) return {};
    return failure(KEEL_FAILED_PRECONDITION,
                   "{} of {} uses the memory at {:#x} and is not complete: wait for its stream "
                   "before the memory is unregistered",
                   collective_name(operation.request.collective), team.name(local_rank()), begin);
  };
  if (running_operation_ != nullptr) KEEL_RETURN_IF_ERROR(check(*running_operation_));
  for (size_t i = 0; i < queue_.size(); ++i) KEEL_RETURN_IF_ERROR(check(queue_.at(i)));
  return {};
}

int64_t Communicator::longest_ns() const {
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  if (running_) {
    sum = running_operation_ != nullptr ? running_operation_->timeout_ns
                                        : timeout_ns_.load(std::memory_order_relaxed);
  }
  for (size_t i = 0; i < queue_.size(); ++i) sum = add_timeouts(sum, queue_.at(i).timeout_ns);
  return sum;
}

// ---- reductions with a factor ---------------------------------------------------

Status Communicator::add_factor(double factor, keel_reduction* out_reduction) {
  std::lock_guard lock(mutex_);
  return factors_.add(factor, out_reduction);
}

Status Communicator::remove_factor(keel_reduction reduction) {
  std::lock_guard lock(mutex_);
  if (factors_.remove(reduction)) return {};
  return failure(KEEL_INVALID_ARGUMENT, "reduction {} is none with a factor of this communicator",
                 reduction);
}

Status Communicator::resolve_reduction(Request* request) const {
  if (!reduces(request->collective) || request->reduction < KEEL_PREMUL_SUM) return {};
  if (is_bitwise(request->reduction)) return {};
  if (request->reduction == KEEL_PREMUL_SUM) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "reduction premul_sum has no factor: use keel_premul_sum_create");
  }
  std::lock_guard lock(mutex_);
  const double* const factor = factors_.find(request->reduction);
  if (factor == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "reduction {} is none of this communicator",
                   request->reduction);
  }
  request->factor = *factor;
  request->reduction = KEEL_PREMUL_SUM;
  return {};
}

}  // namespace keel
