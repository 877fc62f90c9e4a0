// SPDX-License-Identifier: Apache-2.0
#include "collectives/call_check.h"

#include <keel/plugin_kit.hpp>

#include "collectives/reduce/reduce.h"

namespace keel {

namespace {

// Requires |size| bytes at |pointer| to be device or pinned memory of |device|, or memory of the
// caller at the same addresses on the device.
Status check_buffer(Device& device, const void* pointer, uint64_t size, const char* name) {
  if (size == 0) return {};
  Allocation allocation;
  const HostRegistrations& registrations = device.host_registrations();
  if (!device.memory().find(pointer, &allocation)) {
    // Freed memory of Keel is mapped too.
    const bool is_freed = registrations.has_all() && device.memory().owns(pointer);
    if (!is_freed && registrations.has_same_address(pointer, size)) return {};
    if (!is_freed && registrations.has_all() && pointer != nullptr) {
      return failure(KEEL_INVALID_ARGUMENT, "{} {}: not all of its {} bytes are mapped", name,
                     pointer, size);
    }
  }
  return device.memory().check_range(pointer, size, name, &allocation);
}

// The buffers may overlap only as in the collective's in-place form.
Status check_overlap(const Request& request, uint32_t rank, uint32_t world) {
  const uint64_t send_bytes = request.send_bytes(rank, world);
  const uint64_t receive_bytes = request.receive_bytes(rank, world);
  const auto send = reinterpret_cast<uintptr_t>(request.send);
  const auto receive = reinterpret_cast<uintptr_t>(request.receive);
  if (send_bytes == 0 || receive_bytes == 0) return {};
  if (send + send_bytes <= receive || receive + receive_bytes <= send) return {};
  if (request.collective == KEEL_ALL_TO_ALL || request.collective == KEEL_ALL_TO_ALL_V) {
    // Data from a rank replaces the data for the rank.
    if (send == receive && request.send_pieces == request.receive_pieces) return {};
    return failure(KEEL_INVALID_ARGUMENT,
                   "send and receive overlap, and not as in place: one buffer, in which what is "
                   "for a rank lies where what comes from it goes");
  }
  // In place, the rank's own data already lies at its destination.
  const uintptr_t from = send + request.send_piece(rank, rank).offset * request.element();
  const uintptr_t to =
      receive + request.receive_piece(rank, rank, world).offset * request.element();
  if (from == to) return {};
  return failure(KEEL_INVALID_ARGUMENT, "send and receive overlap, and not as in place");
}

Status check_count(uint64_t count, uint32_t element, uint32_t world) {
  if (count <= static_cast<uint64_t>(INT64_MAX) / element / world) return {};
  return failure(KEEL_INVALID_ARGUMENT, "count {} is too large", count);
}

Status check_pieces(const std::vector<Piece>& pieces, uint32_t element, const char* name) {
  for (const Piece& piece : pieces) {
    const uint64_t most = static_cast<uint64_t>(INT64_MAX) / element;
    if (piece.count <= most && piece.offset <= most - piece.count) continue;
    return failure(KEEL_INVALID_ARGUMENT, "{}[{}] is too large: {} elements at {}", name,
                   &piece - pieces.data(), piece.count, piece.offset);
  }
  return {};
}

// Checks the rank's piece for its own use, known only here; the pieces for peers are compared once
// all ranks have called.
Status check_own_piece(const Request& request, uint32_t rank) {
  if (request.collective != KEEL_ALL_TO_ALL_V) return {};
  const uint64_t sent = request.send_pieces[rank].count;
  const uint64_t received = request.receive_pieces[rank].count;
  if (sent == received) return {};
  return failure(KEEL_INVALID_ARGUMENT,
                 "send_counts[{0}] is {1}, receive_counts[{0}] is {2}, of what rank {0} has for "
                 "itself",
                 rank, sent, received);
}

Status check_dtype(keel_dtype dtype) {
  if (element_size(dtype) != 0) return {};
  return failure(KEEL_INVALID_ARGUMENT, "dtype {} is no dtype", dtype);
}

}  // namespace

Status check_call(const Request& request, Device& device, Stream& stream, uint32_t rank,
                  uint32_t world) {
  if (&stream.device() != &device) {
    return failure(KEEL_INVALID_ARGUMENT, "stream is of {}, rank {} is on {}",
                   stream.device().name(), rank, device.name());
  }
  for (const Transfer& transfer : request.transfers) {
    if (transfer.refused != KEEL_OK) continue;
    KEEL_RETURN_IF_ERROR(check_dtype(transfer.dtype));
    KEEL_RETURN_IF_ERROR(check_count(transfer.count, element_size(transfer.dtype), 1));
    if (transfer.peer >= world) {
      return failure(KEEL_INVALID_ARGUMENT, "peer is {}, there are {} ranks", transfer.peer, world);
    }
    KEEL_RETURN_IF_ERROR(
        transfer.sends ? check_buffer(device, transfer.source, transfer.bytes(), "send")
                       : check_buffer(device, transfer.destination, transfer.bytes(), "receive"));
  }
  if (request.collective == KEEL_SEND_RECV) return stream.status();
  KEEL_RETURN_IF_ERROR(check_dtype(request.dtype));
  KEEL_RETURN_IF_ERROR(check_count(request.count, request.element(), world));
  KEEL_RETURN_IF_ERROR(check_pieces(request.send_pieces, request.element(), "counts"));
  KEEL_RETURN_IF_ERROR(check_pieces(request.receive_pieces, request.element(), "counts"));
  KEEL_RETURN_IF_ERROR(check_own_piece(request, rank));
  if (reduces(request.collective) && !can_reduce(request.dtype, request.reduction)) {
    if (is_bitwise(request.reduction)) return no_reduction(request.dtype, request.reduction);
    return failure(
        request.reduction < KEEL_REDUCTION_COUNT ? KEEL_UNSUPPORTED : KEEL_INVALID_ARGUMENT,
        "reduction {} ({})", request.reduction, reduction_name(request.reduction));
  }
  if (request.root >= world) {
    return failure(KEEL_INVALID_ARGUMENT, "root is {}, there are {} ranks", request.root, world);
  }
  const uint64_t send_bytes = request.send_bytes(rank, world);
  const uint64_t receive_bytes = request.receive_bytes(rank, world);
  KEEL_RETURN_IF_ERROR(check_buffer(device, request.send, send_bytes, "send"));
  // In place, the buffer is checked already.
  if (request.receive != request.send || receive_bytes > send_bytes) {
    KEEL_RETURN_IF_ERROR(check_buffer(device, request.receive, receive_bytes, "receive"));
  }
  KEEL_RETURN_IF_ERROR(check_overlap(request, rank, world));
  return stream.status();
}

}  // namespace keel
