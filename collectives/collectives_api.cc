// SPDX-License-Identifier: Apache-2.0
// C functions of collectives and messages.
#include <algorithm>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/communicator_handle.h"
#include "collectives/group_call.h"
#include "collectives/reduce/reduce.h"
#include "collectives/transfer_ranges.h"
#include "core/api.h"
#include "core/profiler.h"

using keel::api_call;
using keel::CallArguments;
using keel::Communicator;
using keel::failure;
using keel::GroupCall;
using keel::Piece;
using keel::Ref;
using keel::Request;
using keel::Status;
using keel::Transfer;

namespace {

// Completes the fields of |*request| for the communicator: calls |complete|(Communicator&,
// Request&), then resolves the reduction and lowers the element type.
template <typename Complete>
Status complete_request(Communicator& communicator, const Complete& complete, Request* request) {
  try {
    KEEL_RETURN_IF_ERROR(complete(communicator, *request));
    KEEL_RETURN_IF_ERROR(communicator.resolve_reduction(request));
    KEEL_RETURN_IF_ERROR(keel::lower_element_type(request));
  } catch (const std::bad_alloc&) {
    return Status::no_memory();
  }
  if (keel::reduces(request->collective) && request->reduction == KEEL_PREMUL_SUM &&
      !keel::can_premultiply(request->dtype, request->factor)) {
    return failure(KEEL_INVALID_ARGUMENT, "factor {}: {} is multiplied by whole numbers only",
                   request->factor, keel::kit::dtype_name(request->dtype));
  }
  return {};
}

// Once the communicator is found, even a refused call counts: the matching calls of the peers are
// already on the way.
template <typename Complete>
keel_status enqueue(keel_comm comm, keel_stream stream, Request request, const Complete& complete) {
  return api_call("a collective", [&]() -> Status {
    Ref<Communicator> found;
    KEEL_RETURN_IF_ERROR(keel::find_communicator(comm, &found));
    Ref<keel::Stream> queue;
    Status able = keel::find_stream(stream, &queue);
    if (able.ok()) able = complete_request(*found, complete, &request);
    GroupCall& group = GroupCall::current();
    if (group.is_open()) {
      const Status added = group.add(found, std::move(request), queue, able);
      return added.ok() ? added : keel::stream_refusal(stream, added);
    }
    keel::EnqueueCall call(keel::collective_name(request.collective), *found->device(), stream);
    return call.end(able.ok() ? found->enqueue(std::move(request), queue)
                              : found->refuse(std::move(request), able));
  });
}

// Calls a form without arrays.
keel_status call(keel_comm comm, keel_stream stream, const CallArguments& arguments,
                 const void* send, void* receive) {
  const auto usual = [&](const keel::epoch::EpochRecord& who, keel_status* out_status) {
    Communicator* found = keel::communicator_handles().peek(comm.id);
    keel::Stream* queue = keel::Runtime::opened().stream_handles().peek(stream.id);
    if (found == nullptr || queue == nullptr || keel::OpenGroup::any()) return false;
    Status status;
    if (!found->try_fast_path(arguments, send, receive, *queue, *who.lookup_cache, &status)) {
      return false;
    }
    *out_status = status.ok() ? KEEL_OK : keel::report(status);
    return true;
  };
  return keel::api_fast_path_call(usual, [&] {
    return enqueue(comm, stream, arguments.request(send, receive),
                   [](Communicator&, Request&) { return Status(); });
  });
}

// Reads one piece per rank: |counts| elements at |offsets|; consecutive pieces if |offsets| is
// NULL.
Status read_pieces(const uint64_t* counts, const uint64_t* offsets, uint32_t world,
                   const char* name, std::vector<Piece>* out_pieces) {
  if (counts == nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", name);
  uint64_t end = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    out_pieces->push_back({offsets == nullptr ? end : offsets[rank], counts[rank]});
    if (__builtin_add_overflow(end, counts[rank], &end)) {
      return failure(KEEL_INVALID_ARGUMENT, "{}[{}] is {}: the sum overflows", name, rank,
                     counts[rank]);
    }
  }
  return {};
}

// Enqueues a form with the same arrays on all ranks.
keel_status enqueue_pieces(keel_comm comm, keel_stream stream, Request request,
                           const uint64_t* counts, const uint64_t* offsets) {
  return enqueue(comm, stream, std::move(request), [&](Communicator& found, Request& completed) {
    KEEL_RETURN_IF_ERROR(
        read_pieces(counts, offsets, found.world(), "counts", &completed.send_pieces));
    completed.receive_pieces = completed.send_pieces;
    return Status();
  });
}

keel_status enqueue_transfers(keel_comm comm, keel_stream stream, std::vector<Transfer> transfers) {
  Request request;
  request.collective = KEEL_SEND_RECV;
  request.transfers = std::move(transfers);
  return enqueue(comm, stream, std::move(request), [](Communicator&, Request& completed) {
    const std::vector<Transfer>& both = completed.transfers;
    return both.size() < 2 ? Status() : keel::check_apart(both[0], both[1]);
  });
}

}  // namespace

keel_status keel_all_reduce(keel_comm comm, const void* send, void* receive, uint64_t count,
                            keel_dtype dtype, keel_reduction reduction, keel_stream stream) {
  return call(comm, stream, {KEEL_ALL_REDUCE, dtype, reduction, 0, count}, send, receive);
}

keel_status keel_reduce(keel_comm comm, const void* send, void* receive, uint64_t count,
                        keel_dtype dtype, keel_reduction reduction, uint32_t root,
                        keel_stream stream) {
  return call(comm, stream, {KEEL_REDUCE, dtype, reduction, root, count}, send, receive);
}

keel_status keel_broadcast(keel_comm comm, const void* send, void* receive, uint64_t count,
                           keel_dtype dtype, uint32_t root, keel_stream stream) {
  return call(comm, stream, {KEEL_BROADCAST, dtype, KEEL_SUM, root, count}, send, receive);
}

keel_status keel_all_gather(keel_comm comm, const void* send, void* receive, uint64_t count,
                            keel_dtype dtype, keel_stream stream) {
  return call(comm, stream, {KEEL_ALL_GATHER, dtype, KEEL_SUM, 0, count}, send, receive);
}

keel_status keel_all_gather_v(keel_comm comm, const void* send, void* receive,
                              const uint64_t* counts, const uint64_t* offsets, keel_dtype dtype,
                              keel_stream stream) {
  return enqueue_pieces(comm, stream,
                        CallArguments{KEEL_ALL_GATHER_V, dtype}.request(send, receive), counts,
                        offsets);
}

keel_status keel_reduce_scatter(keel_comm comm, const void* send, void* receive, uint64_t count,
                                keel_dtype dtype, keel_reduction reduction, keel_stream stream) {
  return call(comm, stream, {KEEL_REDUCE_SCATTER, dtype, reduction, 0, count}, send, receive);
}

keel_status keel_reduce_scatter_v(keel_comm comm, const void* send, void* receive,
                                  const uint64_t* counts, const uint64_t* offsets, keel_dtype dtype,
                                  keel_reduction reduction, keel_stream stream) {
  return enqueue_pieces(
      comm, stream, CallArguments{KEEL_REDUCE_SCATTER_V, dtype, reduction}.request(send, receive),
      counts, offsets);
}

keel_status keel_all_to_all(keel_comm comm, const void* send, void* receive, uint64_t count,
                            keel_dtype dtype, keel_stream stream) {
  return call(comm, stream, {KEEL_ALL_TO_ALL, dtype, KEEL_SUM, 0, count}, send, receive);
}

keel_status keel_all_to_all_v(keel_comm comm, const void* send, const uint64_t* send_counts,
                              const uint64_t* send_offsets, void* receive,
                              const uint64_t* receive_counts, const uint64_t* receive_offsets,
                              keel_dtype dtype, keel_stream stream) {
  return enqueue(comm, stream, CallArguments{KEEL_ALL_TO_ALL_V, dtype}.request(send, receive),
                 [&](Communicator& found, Request& request) {
                   KEEL_RETURN_IF_ERROR(read_pieces(send_counts, send_offsets, found.world(),
                                                    "send_counts", &request.send_pieces));
                   return read_pieces(receive_counts, receive_offsets, found.world(),
                                      "receive_counts", &request.receive_pieces);
                 });
}

keel_status keel_gather(keel_comm comm, const void* send, void* receive, uint64_t count,
                        keel_dtype dtype, uint32_t root, keel_stream stream) {
  return call(comm, stream, {KEEL_GATHER, dtype, KEEL_SUM, root, count}, send, receive);
}

keel_status keel_gather_v(keel_comm comm, const void* send, void* receive, const uint64_t* counts,
                          const uint64_t* offsets, keel_dtype dtype, uint32_t root,
                          keel_stream stream) {
  return enqueue_pieces(comm, stream,
                        CallArguments{KEEL_GATHER_V, dtype, KEEL_SUM, root}.request(send, receive),
                        counts, offsets);
}

keel_status keel_scatter(keel_comm comm, const void* send, void* receive, uint64_t count,
                         keel_dtype dtype, uint32_t root, keel_stream stream) {
  return call(comm, stream, {KEEL_SCATTER, dtype, KEEL_SUM, root, count}, send, receive);
}

keel_status keel_scatter_v(keel_comm comm, const void* send, void* receive, const uint64_t* counts,
                           const uint64_t* offsets, keel_dtype dtype, uint32_t root,
                           keel_stream stream) {
  return enqueue_pieces(comm, stream,
                        CallArguments{KEEL_SCATTER_V, dtype, KEEL_SUM, root}.request(send, receive),
                        counts, offsets);
}

keel_status keel_barrier(keel_comm comm, keel_stream stream) {
  return call(comm, stream, {}, nullptr, nullptr);
}

keel_status keel_send(keel_comm comm, const void* send, uint64_t count, keel_dtype dtype,
                      uint32_t peer, keel_stream stream) {
  return enqueue_transfers(comm, stream, {{true, dtype, peer, count, send, nullptr}});
}

keel_status keel_recv(keel_comm comm, void* receive, uint64_t count, keel_dtype dtype,
                      uint32_t peer, keel_stream stream) {
  return enqueue_transfers(comm, stream, {{false, dtype, peer, count, nullptr, receive}});
}

keel_status keel_send_recv(keel_comm comm, const void* send, uint64_t send_count, uint32_t to,
                           void* receive, uint64_t receive_count, uint32_t from, keel_dtype dtype,
                           keel_stream stream) {
  return enqueue_transfers(comm, stream,
                           {{true, dtype, to, send_count, send, nullptr},
                            {false, dtype, from, receive_count, nullptr, receive}});
}

keel_status keel_group_start(void) {
  return api_call([]() -> Status {
    GroupCall::current().start();
    return {};
  });
}

keel_status keel_group_end(void) {
  return api_call([]() -> Status { return GroupCall::current().end(); });
}
