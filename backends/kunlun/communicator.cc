// SPDX-License-Identifier: Apache-2.0
#include "backends/kunlun/communicator.h"

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <utility>

namespace keel::kunlun {

keel_status Communicator::create(Device& device, const Bkcl& bkcl, const BKCLUniqueId& id, int rank,
                                 int world, std::unique_ptr<Communicator>* out_communicator) {
  std::unique_ptr<Communicator> made(new Communicator(device, bkcl, world));
  const keel_status status = device.perform("bkcl_init_rank", [&] {
    BKCLUniqueId own = id;
    const BKCLResult_t result = bkcl.functions().init_rank(&made->native_, rank, world, &own);
    return result == BKCL_SUCCESS ? keel_status{KEEL_OK} : fail("bkcl_init_rank", result);
  });
  if (status == KEEL_OK) *out_communicator = std::move(made);
  return status;
}

Communicator::~Communicator() {
  if (native_ == nullptr || is_abandoned_) return;
  (void)device_.perform("bkcl_destroy_context", [&] {
    (void)bkcl_.functions().destroy_context(native_);
    return keel_status{KEEL_OK};
  });
}

keel_status Communicator::abort() {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return KEEL_OK;
  if (bkcl_.functions().comm_abort == nullptr) {
    is_abandoned_ = true;
    return kit::fail(KEEL_UNSUPPORTED, "kunlun: this BKCL aborts no work");
  }
  // No document says whether the context may be destroyed afterwards, so it is not.
  BKCLContext_t aborted = std::exchange(native_, nullptr);
  return device_.perform("bkcl_comm_abort", [&] {
    const BKCLResult_t result = bkcl_.functions().comm_abort(aborted);
    return result == BKCL_SUCCESS ? keel_status{KEEL_OK} : fail("bkcl_comm_abort", result);
  });
}

keel_status Communicator::run(Stream& stream, std::span<const keel_ccl_call> calls) {
  const std::lock_guard lock(mutex_);
  if (native_ == nullptr) return kit::fail(KEEL_ABORTED, "kunlun: the communicator was aborted");
  for (const keel_ccl_call& call : calls) {
    if (Bkcl::can(call.collective, call.dtype, call.reduction)) continue;
    return kit::fail(KEEL_UNSUPPORTED, "kunlun: BKCL has no collective %u of %s, reduction %u",
                     call.collective, kit::dtype_name(call.dtype), call.reduction);
  }
  std::vector<Prepared> prepared(calls.size());
  keel_status status = KEEL_OK;
  for (size_t i = 0; status == KEEL_OK && i < calls.size(); ++i) {
    status = prepare(stream, calls[i], &prepared[i]);
  }
  if (status == KEEL_OK) {
    status = enqueue(stream, calls, prepared);
    // BKCL's errors do not tell whether the device is lost: XRE's do.
    std::unique_ptr<Event> probe;
    if (status != KEEL_OK && Event::create(device_, &probe) == KEEL_DEVICE_LOST) {
      status = KEEL_DEVICE_LOST;
    }
  }
  for (const Prepared& each : prepared) {
    if (each.piece == nullptr) continue;
    const keel_status given_back = Scratch::give_back(each.piece, stream);
    if (status == KEEL_OK) status = given_back;
  }
  return status;
}

keel_status Communicator::prepare(Stream& stream, const keel_ccl_call& call,
                                  Prepared* out_prepared) {
  out_prepared->send = call.send;
  if (call.collective == KEEL_ALL_TO_ALL_V) return upload_arrays(stream, call, out_prepared);
  const bool is_in_place = call.collective == KEEL_ALL_TO_ALL && call.send == call.receive;
  return is_in_place && call.count != 0 ? copy_in_place(stream, call, out_prepared)
                                        : keel_status{KEEL_OK};
}

// BKCL reads counts and offsets in device memory. The pinned copy of them lives as long as the
// upload.
keel_status Communicator::upload_arrays(Stream& stream, const keel_ccl_call& call,
                                        Prepared* out_prepared) {
  static_assert(sizeof(size_t) == sizeof(uint64_t));
  const auto entries = static_cast<size_t>(world_);
  const uint64_t bytes = 4 * entries * sizeof(uint64_t);
  keel_status status = scratch_.take(bytes, /*with_host=*/true, &out_prepared->piece);
  if (status != KEEL_OK) return status;
  auto* const host = static_cast<uint64_t*>(out_prepared->piece->host);
  const uint64_t* const arrays[] = {call.send_counts, call.send_offsets, call.receive_counts,
                                    call.receive_offsets};
  for (size_t i = 0; i < 4; ++i) {
    std::memcpy(host + i * entries, arrays[i], entries * sizeof(uint64_t));
  }
  status = stream.copy(KEEL_COPY_HOST_TO_DEVICE, out_prepared->piece->device, host, bytes);
  out_prepared->arrays = static_cast<const size_t*>(out_prepared->piece->device);
  return status;
}

// No document allows an all-to-all in place, so the rank sends from a copy.
keel_status Communicator::copy_in_place(Stream& stream, const keel_ccl_call& call,
                                        Prepared* out_prepared) {
  const uint64_t bytes = call.count * kit::dtype_size(call.dtype) * static_cast<uint64_t>(world_);
  keel_status status = scratch_.take(bytes, /*with_host=*/false, &out_prepared->piece);
  if (status != KEEL_OK) return status;
  out_prepared->send = out_prepared->piece->device;
  return stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, out_prepared->piece->device, call.send, bytes);
}

keel_status Communicator::enqueue(const Stream& stream, std::span<const keel_ccl_call> calls,
                                  const std::vector<Prepared>& prepared) {
  return device_.perform("a BKCL group", [&]() -> keel_status {
    const BkclFunctions& bkcl = bkcl_.functions();
    if (calls.size() == 1) {
      const BKCLResult_t result = enqueue_one(calls[0], prepared[0], stream.native());
      return result == BKCL_SUCCESS ? keel_status{KEEL_OK} : fail("a BKCL collective", result);
    }
    BKCLResult_t result = bkcl.group_start();
    if (result != BKCL_SUCCESS) return fail("bkcl_group_start", result);
    for (size_t i = 0; result == BKCL_SUCCESS && i < calls.size(); ++i) {
      result = enqueue_one(calls[i], prepared[i], stream.native());
    }
    // group_end is always called: an open group would swallow the thread's next calls.
    const BKCLResult_t ended = bkcl.group_end();
    if (result == BKCL_SUCCESS) result = ended;
    return result == BKCL_SUCCESS ? keel_status{KEEL_OK} : fail("a BKCL group", result);
  });
}

BKCLResult_t Communicator::enqueue_one(const keel_ccl_call& call, const Prepared& prepared,
                                       xre::Stream stream) const {
  const BkclFunctions& bkcl = bkcl_.functions();
  const void* const send = prepared.send;
  BKCLDataType type = {};
  BKCLOp op = BKCL_ADD;
  if (!translate(call.dtype, &type)) return BKCL_INVALID_ARGUMENT;
  (void)translate(call.reduction, &op);  // read by reductions alone
  switch (call.collective) {
    case KEEL_ALL_REDUCE:
      return bkcl.all_reduce(native_, send, call.receive, call.count, type, op, stream);
    case KEEL_REDUCE:
      return bkcl.reduce(native_, send, call.receive, call.count, type, op, call.root, stream);
    case KEEL_BROADCAST:
      // Ranks that only receive have no send buffer.
      return bkcl.broadcast(native_, send == nullptr ? call.receive : send, call.receive,
                            call.count, type, call.root, stream);
    case KEEL_ALL_GATHER:
      return bkcl.all_gather(native_, send, call.count, call.receive, type, stream);
    case KEEL_REDUCE_SCATTER:
      return bkcl.reduce_scatter(native_, send, call.receive, call.count, type, op, stream);
    case KEEL_ALL_TO_ALL:
      return bkcl.all_to_all(native_, send, call.count, call.receive, type, stream);
    case KEEL_ALL_TO_ALL_V: {
      const size_t* const arrays = prepared.arrays;
      const auto entries = static_cast<size_t>(world_);
      return bkcl.all_to_all_v(native_, send, arrays, arrays + entries, type, call.receive,
                               arrays + 2 * entries, arrays + 3 * entries, type, stream);
    }
    case KEEL_SEND:
      return bkcl.send(native_, send, call.count, call.root, type, stream);
    case KEEL_RECV:
      return bkcl.recv(native_, call.receive, call.count, call.root, type, stream);
    default:
      return BKCL_INVALID_ARGUMENT;
  }
}

}  // namespace keel::kunlun
