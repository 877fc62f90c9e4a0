// SPDX-License-Identifier: Apache-2.0
#include "collectives/group_call.h"

#include <algorithm>
#include <utility>

namespace keel {

GroupCall& GroupCall::current() {
  thread_local GroupCall group;
  return group;
}

Status GroupCall::add(const Ref<Communicator>& communicator, Request request,
                      const Ref<Stream>& stream) {
  KEEL_RETURN_IF_ERROR(communicator->check(request, stream));
  if (request.collective == KEEL_SEND_RECV) {
    for (Call& call : calls_) {
      if (call.request.collective != KEEL_SEND_RECV) continue;
      if (call.communicator.get() != communicator.get() || call.stream.get() != stream.get()) {
        continue;
      }
      std::vector<Transfer>& earlier = call.request.transfers;
      KEEL_RETURN_IF_ERROR(call.ranges.add(earlier, request.transfers));
      earlier.insert(earlier.end(), request.transfers.begin(), request.transfers.end());
      return {};
    }
  }
  TransferRanges ranges;
  KEEL_RETURN_IF_ERROR(ranges.add({}, request.transfers));
  calls_.push_back({communicator, std::move(request), stream, std::move(ranges)});
  return {};
}

Status GroupCall::end() {
  if (depth_ == 0) {
    return failure(KEEL_INVALID_ARGUMENT, "keel_group_end without a keel_group_start");
  }
  if (--depth_ != 0) return {};
  open_.fetch_sub(1, std::memory_order_relaxed);
  std::vector<Call> calls = std::exchange(calls_, {});
  // Ranks may have called several communicators in different orders; what lies on one stream is
  // done in that order, and would wait for each other.
  const auto is_other = [&](const Call& call) {
    return &call.communicator->team() != &calls.front().communicator->team();
  };
  if (std::any_of(calls.begin(), calls.end(), is_other)) {
    std::stable_sort(calls.begin(), calls.end(), [](const Call& one, const Call& other) {
      return one.communicator->team().id() < other.communicator->team().id();
    });
  }
  Status first;
  for (Call& call : calls) {
    const Status status = call.communicator->enqueue(std::move(call.request), call.stream);
    if (!status.ok() && first.ok()) first = status;
  }
  return first;
}

}  // namespace keel
