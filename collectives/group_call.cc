// SPDX-License-Identifier: Apache-2.0
#include "collectives/group_call.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "core/stream_refusal.h"

namespace keel {

GroupCall& GroupCall::current() {
  thread_local GroupCall group;
  return group;
}

bool GroupCall::leave_forgotten() {
  const uint64_t shutdowns = shutdowns_.load(std::memory_order_relaxed);
  if (std::exchange(shutdowns_seen_, shutdowns) == shutdowns || calls_.empty()) return false;
  static std::mutex mutex;
  static auto& forgotten = *new std::vector<std::vector<Call>>;
  std::lock_guard lock(mutex);
  forgotten.push_back(std::exchange(calls_, {}));
  return true;
}

Status GroupCall::add(const Ref<Communicator>& communicator, Request request,
                      const Ref<Stream>& stream, const Status& refused) {
  leave_forgotten();
  try {
    const Status status = refused.ok() ? communicator->check(request, stream) : refused;
    if (request.collective == KEEL_SEND_RECV) {
      return add_messages(communicator, std::move(request), stream, status);
    }
    calls_.push_back({communicator, std::move(request), stream, {}, status});
    open_.count_call();
    return status;
  } catch (const std::bad_alloc&) {
    // No memory is left to publish the refusal in turn.
    communicator->abort(Status::no_memory());
    return Status::no_memory();
  }
}

GroupCall::Call* GroupCall::find_messages(const Communicator& communicator, const Stream* stream) {
  for (Call& call : calls_) {
    if (call.request.collective != KEEL_SEND_RECV) continue;
    if (call.communicator.get() != &communicator) continue;
    // Refused messages join any stream: alone, they could wait for later operations.
    if (call.stream.get() == stream || !call.stream || stream == nullptr) return &call;
  }
  return nullptr;
}

Status GroupCall::add_messages(const Ref<Communicator>& communicator, Request request,
                               const Ref<Stream>& stream, const Status& refused) {
  Call* call = find_messages(*communicator, refused.ok() ? stream.get() : nullptr);
  Status status = refused;
  if (call == nullptr) {
    Request messages;
    messages.collective = KEEL_SEND_RECV;
    calls_.push_back({communicator, std::move(messages), {}, {}, {}});
    call = &calls_.back();
  }
  std::vector<Transfer>& earlier = call->request.transfers;
  if (status.ok()) status = call->ranges.add(earlier, request.transfers);
  if (status.ok()) {
    call->stream = stream;
    call->refused = {};
  } else {
    refuse_all(&request.transfers, status);
    std::erase_if(request.transfers,
                  [&](const Transfer& transfer) { return transfer.peer >= communicator->world(); });
    if (!call->stream) call->refused = status;
  }
  earlier.insert(earlier.end(), request.transfers.begin(), request.transfers.end());
  open_.count_call();
  return status;
}

void GroupCall::sort(std::vector<Call>* calls) {
  const auto is_other = [&](const Call& call) {
    return &call.communicator->team() != &calls->front().communicator->team();
  };
  if (std::none_of(calls->begin(), calls->end(), is_other)) return;
  std::stable_sort(calls->begin(), calls->end(), [](const Call& one, const Call& other) {
    return one.communicator->id() < other.communicator->id();
  });
}

Status GroupCall::end() {
  bool is_outermost = false;
  KEEL_RETURN_IF_ERROR(open_.end(&is_outermost));
  if (!is_outermost) return {};
  if (leave_forgotten()) {
    return failure(KEEL_ABORTED, "Keel was shut down since keel_group_start");
  }
  std::vector<Call> calls = std::exchange(calls_, {});
  Status first;
  try {
    // Ranks may have called several communicators in different orders. Operations on a stream run
    // in the order of the calls, and would wait in a cycle.
    sort(&calls);
  } catch (const std::bad_alloc&) {
    first = Status::no_memory();
    for (Call& call : calls) {
      if (call.refused.ok()) call.refused = first;
    }
  }
  for (Call& call : calls) {
    if (!call.refused.ok()) {  // the call has returned the status
      call.communicator->refuse(std::move(call.request), call.refused).ok();
      continue;
    }
    const Status status = call.communicator->enqueue(std::move(call.request), call.stream);
    if (!status.ok() && first.ok()) first = stream_refusal(*call.stream, status);
  }
  return first;
}

}  // namespace keel
