// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/one_shot.h"

#include <algorithm>
#include <cstring>

#include "collectives/reduce/reduce.h"
#include "core/observer.h"

namespace keel {

bool can_one_shot(RankContext& context, const Request& request, uint64_t sequence, const Side& send,
                  const Side& receive) {
  constexpr uint32_t kForeign = OperationDescriptor::kSendStaged |
                                OperationDescriptor::kReceiveStaged | OperationDescriptor::kInPlace;
  const uint32_t world = context.world();
  if (request.algorithm != Algorithm::kOneShot) return false;
  // Use the local values for this rank: a remote process may have overwritten the descriptor.
  if (send.staged || receive.staged) return false;
  for (uint32_t rank = 0; rank < world; ++rank) {
    if ((context.board().descriptor(rank, sequence).flags & kForeign) != 0) return false;
  }
  return true;
}

Status run_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& send, const Side& receive, WaitContext& wait_context) {
  const uint64_t bytes = request.count * request.element();
  for (uint32_t peer = 0; peer < context.world(); ++peer) {
    const OperationDescriptor& descriptor = context.board().descriptor(peer, sequence);
    const char* data = send.buffer.host;
    if (peer != context.rank()) {
      KEEL_RETURN_IF_ERROR(context.resolve(peer, descriptor.send, descriptor.memory_epoch, 0, bytes,
                                           wait_context, &data));
    }
    context.sources[peer] = data;
    context.factors[peer] = context.published_factor(peer, request, sequence);
  }
  {
    const HostSpan span("host reduce", [&](AccessList& accesses) {
      accesses.writes(&context.device(), receive.buffer.device, bytes);
    });
    // A selection table may choose one-shot for large operations.
    KEEL_RETURN_IF_ERROR(
        context.reduce_in_steps(request, receive.buffer.host, request.count, Store::kCached));
  }
  // A buffer must not change until all ranks have read it.
  KEEL_RETURN_IF_ERROR(context.meet(wait_context));
  context.count_in_place(2 * bytes);
  return {};
}

bool may_copy_one_shot(const RankContext& context, const Request& request) {
  const uint64_t bytes = request.count * request.element();
  return request.algorithm == Algorithm::kOneShot && request.foreign == ForeignWay::kAttach &&
         !context.any_staged() && request.count <= kMostCopiedOneShot &&
         bytes <= std::min(kMostCopiedOneShot, context.chunk_bytes()) &&
         (context.world() - 1) * bytes <= 2 * context.window_bytes();  // two chunks are contiguous
}

bool does_copy_one_shot(RankContext& context, const Request& request, uint64_t sequence) {
  if (request.algorithm != Algorithm::kOneShot) return false;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    if ((context.board().descriptor(rank, sequence).flags & OperationDescriptor::kSendAttached) !=
        0)
      return true;
  }
  return false;
}

Status run_copying_one_shot(RankContext& context, const Request& request, uint64_t sequence,
                            const Side& send, const Side& receive, WaitContext& wait_context) {
  // A remote process may have overwritten the rank's descriptor, but not local values.
  if (!may_copy_one_shot(context, request)) {
    return failure(KEEL_RANK_FAILED, "a rank posted an address that nobody asked for");
  }
  const uint64_t bytes = request.count * request.element();
  KEEL_RETURN_IF_ERROR(context.stage().prepare(/*device_copies=*/false));
  char* room = context.stage().out(0);
  for (uint32_t peer = 0; peer < context.world(); ++peer) {
    context.factors[peer] = context.published_factor(peer, request, sequence);
    context.sources[peer] = send.buffer.host;
    if (peer == context.rank()) continue;
    const OperationDescriptor& descriptor = context.board().descriptor(peer, sequence);
    if ((descriptor.flags & OperationDescriptor::kSendAttached) != 0 &&
        !context.team().is_here(peer)) {
      KEEL_RETURN_IF_ERROR(context.read_attached(peer, descriptor.send.address, bytes, room));
    } else {
      const bool is_staged = (descriptor.flags & OperationDescriptor::kSendStaged) != 0;
      const uint64_t offset = is_staged ? context.stage().in_offset(0) : 0;
      const char* data = nullptr;
      KEEL_RETURN_IF_ERROR(context.resolve(peer, descriptor.send, descriptor.memory_epoch, offset,
                                           bytes, wait_context, &data));
      std::memcpy(room, data, bytes);
    }
    context.sources[peer] = room;
    room += bytes;
  }
  KEEL_RETURN_IF_ERROR(context.meet(wait_context));
  const HostSpan span("host reduce", [&](AccessList& accesses) {
    accesses.writes(&context.device(), receive.buffer.device, bytes);
  });
  void* const destinations[] = {receive.buffer.host};
  reduce(request.dtype, request.reduction, context.sources, destinations, request.count,
         {context.factors_of(request)});
  context.count_in_place(2 * bytes);
  return {};
}

}  // namespace keel
