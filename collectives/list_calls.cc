// SPDX-License-Identifier: Apache-2.0
// C functions of collectives with a buffer of its own for each rank.
#include <vector>

#include "collectives/communicator.h"
#include "collectives/communicator_handle.h"
#include "collectives/group_call.h"
#include "collectives/operation.h"
#include "collectives/transfer_ranges.h"
#include "core/api.h"
#include "core/profiler.h"

using keel::api_call;
using keel::Communicator;
using keel::failure;
using keel::GroupCall;
using keel::Ref;
using keel::Request;
using keel::Status;
using keel::Transfer;

namespace {

Status check_all_apart(const std::vector<Transfer>& transfers) {
  keel::TransferRanges ranges;
  std::vector<Transfer> earlier;
  earlier.reserve(transfers.size());
  for (const Transfer& transfer : transfers) {
    KEEL_RETURN_IF_ERROR(ranges.add(earlier, {transfer}));
    earlier.push_back(transfer);
  }
  return {};
}

// |name| is the C function's, a static string. Enqueues the messages that |make|(communicator,
// std::vector<Transfer>*) appends, as one operation. A refused call appends them too: the peers
// wait for each.
template <typename Make>
keel_status enqueue_messages(const char* name, keel_comm comm, keel_stream stream,
                             const Make& make) {
  return api_call(name, [&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(keel::find_communicator(comm, &found));
    Request request;
    request.collective = KEEL_SEND_RECV;
    Status able;
    try {
      able = make(*found, &request.transfers);
      if (able.ok()) able = check_all_apart(request.transfers);
    } catch (const std::bad_alloc&) {
      able = Status::no_memory();
    }
    Ref<keel::Stream> queue;
    if (able.ok()) able = keel::find_stream(stream, &queue);
    // A rank alone, whose data lies where it belongs.
    if (able.ok() && request.transfers.empty()) return {};
    GroupCall& group = GroupCall::current();
    if (group.is_open()) {
      const Status added = group.add(found, std::move(request), queue, able);
      return added.ok() ? added : keel::stream_refusal(stream, added);
    }
    constexpr size_t kPrefix = sizeof("keel_") - 1;
    keel::EnqueueCall call(name + kPrefix, *found->device(), stream);
    return call.end(able.ok() ? found->enqueue(std::move(request), queue)
                              : found->refuse(std::move(request), able));
  });
}

// Appends the messages between this rank and |peer|. Nothing is copied where a rank keeps its own
// data in place.
void add_pair(const Communicator& communicator, uint32_t peer, keel_dtype dtype, const void* send,
              uint64_t send_count, void* receive, uint64_t receive_count,
              std::vector<Transfer>* transfers) {
  const bool is_own = peer == communicator.rank();
  if (is_own && send == receive && send_count == receive_count) return;
  transfers->push_back({true, dtype, peer, send_count, send, nullptr});
  transfers->push_back({false, dtype, peer, receive_count, nullptr, receive});
}

}  // namespace

keel_status keel_all_gather_list(keel_comm comm, const void* send, void* const* receive,
                                 uint64_t count, keel_dtype dtype, keel_stream stream) {
  const auto make = [&](const Communicator& found, std::vector<Transfer>* transfers) {
    for (uint32_t peer = 0; peer < found.world(); ++peer) {
      add_pair(found, peer, dtype, send, count, receive == nullptr ? nullptr : receive[peer], count,
               transfers);
    }
    return receive == nullptr ? failure(KEEL_INVALID_ARGUMENT, "receive is NULL") : Status();
  };
  return enqueue_messages("keel_all_gather_list", comm, stream, make);
}

keel_status keel_all_to_all_list(keel_comm comm, const void* const* send,
                                 const uint64_t* send_counts, void* const* receive,
                                 const uint64_t* receive_counts, keel_dtype dtype,
                                 keel_stream stream) {
  if (receive_counts == nullptr) receive_counts = send_counts;
  const auto make = [&](const Communicator& found, std::vector<Transfer>* transfers) {
    const char* const missing = send == nullptr          ? "send"
                                : send_counts == nullptr ? "send_counts"
                                : receive == nullptr     ? "receive"
                                                         : nullptr;
    for (uint32_t peer = 0; peer < found.world(); ++peer) {
      if (missing != nullptr) {
        add_pair(found, peer, dtype, nullptr, 0, nullptr, 1, transfers);
      } else {
        add_pair(found, peer, dtype, send[peer], send_counts[peer], receive[peer],
                 receive_counts[peer], transfers);
      }
    }
    if (missing != nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", missing);
    const uint32_t own = found.rank();
    if (send_counts[own] == receive_counts[own]) return Status();
    return failure(KEEL_INVALID_ARGUMENT,
                   "send_counts[{0}] is {1}, receive_counts[{0}] is {2}, of what rank {0} has for "
                   "itself",
                   own, send_counts[own], receive_counts[own]);
  };
  return enqueue_messages("keel_all_to_all_list", comm, stream, make);
}

keel_status keel_reduce_scatter_list(keel_comm comm, const void* const* send, void* receive,
                                     uint64_t count, keel_dtype dtype, keel_reduction reduction,
                                     keel_stream stream) {
  uint32_t rank = 0;
  uint32_t world = 0;
  keel_status status = keel_comm_rank(comm, &rank, &world);
  // All ranks call once for each rank, also where a call is refused.
  for (uint32_t root = 0; root < world; ++root) {
    const keel_status called =
        keel_reduce(comm, send == nullptr ? nullptr : send[root], root == rank ? receive : nullptr,
                    count, dtype, reduction, root, stream);
    if (status == KEEL_OK) status = called;
  }
  return status;
}
