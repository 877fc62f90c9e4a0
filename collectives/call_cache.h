// SPDX-License-Identifier: Apache-2.0
// Call cache: earlier small calls of a rank, with all derived values but the buffers.
#ifndef KEEL_COLLECTIVES_CALL_CACHE_H_
#define KEEL_COLLECTIVES_CALL_CACHE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "collectives/operation.h"

namespace keel {

// Arguments of a collective without arrays of counts, as in keel.h.
struct CallArguments {
  keel_collective collective = KEEL_BARRIER;
  keel_dtype dtype = KEEL_UINT8;
  keel_reduction reduction = KEEL_SUM;
  uint32_t root = 0;
  uint64_t count = 0;

  Request request(const void* send, void* receive) const {
    Request request;
    request.collective = collective;
    request.dtype = dtype;
    request.reduction = reduction;
    request.root = root;
    request.count = count;
    request.send = send;
    request.receive = receive;
    return request;
  }
};

// A call with valid arguments, except for unchecked buffers, and with Algorithm::kEager.
struct CachedCall {
  bool is(const CallArguments& arguments) const {
    return is_set && request.count == arguments.count &&
           request.collective == arguments.collective && request.dtype == arguments.dtype &&
           request.reduction == arguments.reduction && request.root == arguments.root;
  }
  // Whether buffers at |send| and |receive| are disjoint, or overlap as in the in-place form.
  bool may_have(const void* send, const void* receive) const {
    const auto from = reinterpret_cast<uintptr_t>(send);
    const auto to = reinterpret_cast<uintptr_t>(receive);
    return from + send_bytes <= to || to + receive_bytes <= from || from + own_from == to + own_to;
  }

  bool is_set = false;
  Request request;  // without its buffers
  uint64_t send_bytes = 0;
  uint64_t receive_bytes = 0;
  // Offsets of the rank's own data in its send and receive buffer, in bytes.
  uint64_t own_from = 0;
  uint64_t own_to = 0;
};

// The last calls of one rank: a training step makes dozens, and repeats the calls of the step
// before. Not thread-safe.
class CallCache {
 public:
  // Returns NULL if the call is not in the cache.
  const CachedCall* find(const CallArguments& arguments) const {
    const CachedCall& call = places_[place_of(arguments)];
    return call.is(arguments) ? &call : nullptr;
  }
  // Requires a checked |request| without arrays and without a factor.
  void remember(const Request& request, uint32_t rank, uint32_t world) {
    CachedCall call = {.is_set = true,
                       .request = request,
                       .send_bytes = request.send_bytes(rank, world),
                       .receive_bytes = request.receive_bytes(rank, world)};
    call.request.send = nullptr;
    call.request.receive = nullptr;
    if (request.collective != KEEL_ALL_TO_ALL) {  // in place, both are one buffer
      call.own_from = request.send_piece(rank, rank).offset * request.element();
      call.own_to = request.receive_piece(rank, rank, world).offset * request.element();
    }
    const CallArguments arguments = {request.collective, request.dtype, request.reduction,
                                     request.root, request.count};
    places_[place_of(arguments)] = std::move(call);
  }

 private:
  static constexpr uint32_t kPlaceBits = 6;
  static size_t place_of(const CallArguments& arguments) {
    const uint64_t key = arguments.count << 20 ^ uint64_t { arguments.root } << 12 ^
                         uint64_t { arguments.collective } << 7 ^
                         uint64_t { arguments.dtype } << 3 ^ uint64_t { arguments.reduction };
    return key * 0x9e3779b97f4a7c15u >> (64 - kPlaceBits);
  }

  std::array<CachedCall, 1 << kPlaceBits> places_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_CALL_CACHE_H_
