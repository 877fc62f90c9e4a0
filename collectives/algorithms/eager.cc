// SPDX-License-Identifier: Apache-2.0
#include "collectives/algorithms/eager.h"

#include <cstring>

#include "collectives/reduce/reduce.h"
#include "core/observer.h"

namespace keel {

namespace {

uint8_t* payload(RankContext& context, uint32_t rank, uint64_t sequence, uint64_t bytes) {
  OperationDescriptor& descriptor = context.board().descriptor(rank, sequence);
  return bytes <= sizeof(descriptor.small) ? descriptor.small
                                           : context.board().eager(rank, sequence);
}

}  // namespace

void fill_eager(RankContext& context, const Request& request, uint64_t sequence, const void* source,
                uint64_t bytes) {
  const uint64_t part = request.count * request.element();
  std::memcpy(
      payload(context, context.rank(), sequence, part * request.send_parts(context.world())),
      source, bytes);
}

void compute_eager(RankContext& context, const Request& request, uint64_t sequence, void* result) {
  const uint32_t world = context.world();
  const uint32_t rank = context.rank();
  const uint64_t element = request.element();
  const uint64_t bytes = request.count * element * request.send_parts(world);
  if (reduces(request.collective)) {
    // Equal for the data of all ranks.
    const uint64_t offset = request.send_piece(rank, rank).offset * element;
    for (uint32_t peer = 0; peer < world; ++peer) {
      context.sources[peer] = payload(context, peer, sequence, bytes) + offset;
    }
    if (request.reduction == KEEL_PREMUL_SUM) {
      for (uint32_t peer = 0; peer < world; ++peer) {
        context.factors[peer] = context.published_factor(peer, request, sequence);
      }
    }
    void* const destinations[] = {result};
    reduce(request.dtype, request.reduction, context.sources, destinations, request.count,
           {context.factors_of(request)});
    return;
  }
  for (uint32_t peer = 0; peer < world; ++peer) {
    const Piece from = request.send_piece(peer, rank);
    const Piece to = request.receive_piece(rank, peer, world);
    if (to.count == 0) continue;
    std::memcpy(static_cast<char*>(result) + to.offset * element,
                payload(context, peer, sequence, bytes) + from.offset * element,
                to.count * element);
  }
}

Status write_eager(RankContext& context, const Request& request, uint64_t sequence,
                   const Side& send, WaitContext& wait_context) {
  if (send.bytes == 0) return {};
  if (send.buffer.host != nullptr) {
    context.count_in_place(send.bytes);
    const HostSpan span("host copy", [&](AccessList& accesses) {
      accesses.reads(&context.device(), send.buffer.device, send.bytes);
    });
    fill_eager(context, request, sequence, send.buffer.host, send.bytes);
    return {};
  }
  KEEL_RETURN_IF_ERROR(context.stage().fetch(0, send.buffer, 0, 0, send.bytes));
  KEEL_RETURN_IF_ERROR(context.stage().await_fetched(0, wait_context));
  context.to_host.store(context.stage().traffic().to_host, std::memory_order_relaxed);
  const HostSpan span("host copy", [](AccessList&) {});
  fill_eager(context, request, sequence, context.stage().in(0), send.bytes);
  return {};
}

Status finish_eager(RankContext& context, const Request& request, uint64_t sequence,
                    const Side& receive, WaitContext& wait_context) {
  if (receive.bytes == 0) return {};
  const char* const name = reduces(request.collective) ? "host reduce" : "host copy";
  if (receive.buffer.host != nullptr) {
    const HostSpan span(name, [&](AccessList& accesses) {
      accesses.writes(&context.device(), receive.buffer.device, receive.bytes);
    });
    compute_eager(context, request, sequence, receive.buffer.host);
    context.count_in_place(receive.bytes);
    return {};
  }
  {
    const HostSpan span(name, [](AccessList&) {});
    compute_eager(context, request, sequence, context.stage().out(0));
  }
  KEEL_RETURN_IF_ERROR(context.stage().deliver(0, receive.buffer, 0, 0, receive.bytes));
  KEEL_RETURN_IF_ERROR(context.stage().await_delivered(0, wait_context));
  context.to_device.store(context.stage().traffic().to_device, std::memory_order_relaxed);
  return {};
}

}  // namespace keel
