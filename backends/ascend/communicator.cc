// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/communicator.h"

#include <keel/plugin_kit.hpp>
#include <vector>

namespace keel::ascend {
namespace {

bool translate(keel_dtype dtype, HcclDataType* out_type) {
  switch (dtype) {
    case KEEL_INT8:
      *out_type = HCCL_DATA_TYPE_INT8;
      return true;
    case KEEL_INT16:
      *out_type = HCCL_DATA_TYPE_INT16;
      return true;
    case KEEL_INT32:
      *out_type = HCCL_DATA_TYPE_INT32;
      return true;
    case KEEL_INT64:
      *out_type = HCCL_DATA_TYPE_INT64;
      return true;
    case KEEL_UINT8:
      *out_type = HCCL_DATA_TYPE_UINT8;
      return true;
    case KEEL_UINT16:
      *out_type = HCCL_DATA_TYPE_UINT16;
      return true;
    case KEEL_UINT32:
      *out_type = HCCL_DATA_TYPE_UINT32;
      return true;
    case KEEL_UINT64:
      *out_type = HCCL_DATA_TYPE_UINT64;
      return true;
    case KEEL_FLOAT16:
      *out_type = HCCL_DATA_TYPE_FP16;
      return true;
    case KEEL_BFLOAT16:
      *out_type = HCCL_DATA_TYPE_BFP16;
      return true;
    case KEEL_FLOAT32:
      *out_type = HCCL_DATA_TYPE_FP32;
      return true;
    case KEEL_FLOAT64:
      *out_type = HCCL_DATA_TYPE_FP64;
      return true;
    default:
      return false;  // only some chips move the 8-bit floats
  }
}

// HCCL has no average and no factor.
bool translate(keel_reduction reduction, HcclReduceOp* out_op) {
  switch (reduction) {
    case KEEL_SUM:
      *out_op = HCCL_REDUCE_SUM;
      return true;
    case KEEL_PROD:
      *out_op = HCCL_REDUCE_PROD;
      return true;
    case KEEL_MIN:
      *out_op = HCCL_REDUCE_MIN;
      return true;
    case KEEL_MAX:
      *out_op = HCCL_REDUCE_MAX;
      return true;
    default:
      return false;
  }
}

// HCCL's documents exclude products of int16 and bfloat16.
bool can_reduce(keel_dtype dtype, keel_reduction reduction) {
  HcclReduceOp op = HCCL_REDUCE_RESERVED;
  if (!translate(reduction, &op)) return false;
  switch (dtype) {
    case KEEL_INT8:
    case KEEL_INT32:
    case KEEL_FLOAT16:
    case KEEL_FLOAT32:
      return true;
    case KEEL_INT16:
    case KEEL_BFLOAT16:
      return op != HCCL_REDUCE_PROD;
    default:
      return false;
  }
}

bool is_message(const keel_ccl_call& call) {
  return call.collective == KEEL_SEND || call.collective == KEEL_RECV;
}

}  // namespace

bool can_run(const Sdk& sdk, keel_collective collective, keel_dtype dtype,
             keel_reduction reduction) {
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;
  if (!sdk.no_collectives().empty() || !translate(dtype, &type)) return false;
  switch (collective) {
    case KEEL_ALL_REDUCE:
    case KEEL_REDUCE:
    case KEEL_REDUCE_SCATTER:
      return can_reduce(dtype, reduction);
    case KEEL_BROADCAST:
    case KEEL_ALL_GATHER:
      return true;
    case KEEL_SEND:
    case KEEL_RECV:
      return sdk.functions().HcclBatchSendRecv != nullptr;
    default:
      return false;
  }
}

keel_status Communicator::create(Device& device, const HcclRootInfo& info, uint32_t rank,
                                 uint32_t world, std::unique_ptr<Communicator>* out_communicator) {
  std::unique_ptr<Communicator> made(new Communicator(device, rank));
  const keel_status status = made->call("HcclCommInitRootInfo", [&](const Functions& hccl) {
    return hccl.HcclCommInitRootInfo(world, &info, rank, &made->native_);
  });
  if (status == KEEL_OK) *out_communicator = std::move(made);
  return status;
}

Communicator::~Communicator() {
  if (native_ == nullptr) return;
  // Also on a lost device: HCCL owns host threads and host memory.
  (void)device_.release("HcclCommDestroy", [&](const Functions& hccl) {
    const HcclResult result = hccl.HcclCommDestroy(native_);
    if (result != HCCL_SUCCESS) {
      kit::log(KEEL_LOG_WARNING, "ascend: %s",
               device_.sdk().text_of("HcclCommDestroy", result).c_str());
    }
    return aclError{ACL_SUCCESS};
  });
}

template <typename Body>
keel_status Communicator::call(const char* name, Body&& body) {
  HcclResult result = HCCL_SUCCESS;
  const keel_status entered = device_.call(name, [&](const Functions& hccl) {
    result = body(hccl);
    return aclError{ACL_SUCCESS};
  });
  if (entered != KEEL_OK || result == HCCL_SUCCESS) return entered;
  // If the device is lost, any call of the runtime reports the loss and its cause.
  uint64_t free = 0;
  uint64_t total = 0;
  if (result == HCCL_E_RUNTIME && device_.functions().aclrtGetMemInfo != nullptr &&
      device_.memory_info(&free, &total) == KEEL_DEVICE_LOST) {
    return KEEL_DEVICE_LOST;
  }
  return kit::fail(status_of(result), "ascend: %s", device_.sdk().text_of(name, result).c_str());
}

keel_status Communicator::async_error() {
  if (device_.functions().HcclGetCommAsyncError == nullptr) return KEEL_OK;
  HcclResult found = HCCL_SUCCESS;
  const keel_status asked = call("HcclGetCommAsyncError", [&](const Functions& hccl) {
    return hccl.HcclGetCommAsyncError(native_, &found);
  });
  if (asked != KEEL_OK || found == HCCL_SUCCESS) return asked;
  return kit::fail(status_of(found), "ascend: %s",
                   device_.sdk().text_of("an HCCL operation", found).c_str());
}

keel_status Communicator::run(Stream& stream, std::span<const keel_ccl_call> calls) {
  for (const keel_ccl_call& call : calls) {
    if (can_run(device_.sdk(), call.collective, call.dtype, call.reduction)) continue;
    return kit::fail(KEEL_UNSUPPORTED, "ascend: HCCL has no collective %u of %s, reduction %u",
                     call.collective, kit::dtype_name(call.dtype), call.reduction);
  }
  for (size_t i = 0, end = 0; i < calls.size(); i = end) {
    end = i + 1;
    while (is_message(calls[i]) && end < calls.size() && is_message(calls[end])) ++end;
    const keel_status status = is_message(calls[i])
                                   ? run_messages(stream, calls.subspan(i, end - i))
                                   : run_one(stream, calls[i]);
    if (status != KEEL_OK) return status;
  }
  return KEEL_OK;
}

keel_status Communicator::run_one(Stream& stream, const keel_ccl_call& call) {
  HcclDataType type = HCCL_DATA_TYPE_RESERVED;
  HcclReduceOp op = HCCL_REDUCE_SUM;
  (void)translate(call.dtype, &type);
  (void)translate(call.reduction, &op);
  auto* const send = const_cast<void*>(call.send);
  const auto root = static_cast<uint32_t>(call.root);
  aclrtStream const native = stream.native();
  switch (call.collective) {
    case KEEL_ALL_REDUCE:
      return this->call("HcclAllReduce", [&](const Functions& hccl) {
        return hccl.HcclAllReduce(send, call.receive, call.count, type, op, native_, native);
      });
    case KEEL_REDUCE:
      return this->call("HcclReduce", [&](const Functions& hccl) {
        return hccl.HcclReduce(send, call.receive, call.count, type, op, root, native_, native);
      });
    case KEEL_BROADCAST: {
      // HCCL broadcasts in place.
      const uint64_t bytes = call.count * kit::dtype_size(call.dtype);
      if (rank_ == root && send != call.receive && bytes != 0) {
        const keel_status copied =
            stream.copy(KEEL_COPY_DEVICE_TO_DEVICE, call.receive, send, bytes);
        if (copied != KEEL_OK) return copied;
      }
      return this->call("HcclBroadcast", [&](const Functions& hccl) {
        return hccl.HcclBroadcast(call.receive, call.count, type, root, native_, native);
      });
    }
    case KEEL_ALL_GATHER:
      return this->call("HcclAllGather", [&](const Functions& hccl) {
        return hccl.HcclAllGather(send, call.receive, call.count, type, native_, native);
      });
    default:
      return this->call("HcclReduceScatter", [&](const Functions& hccl) {
        return hccl.HcclReduceScatter(send, call.receive, call.count, type, op, native_, native);
      });
  }
}

keel_status Communicator::run_messages(const Stream& stream, std::span<const keel_ccl_call> calls) {
  std::vector<HcclSendRecvItem> items;
  items.reserve(calls.size());
  for (const keel_ccl_call& call : calls) {
    HcclDataType type = HCCL_DATA_TYPE_RESERVED;
    (void)translate(call.dtype, &type);
    const bool sends = call.collective == KEEL_SEND;
    items.push_back({sends ? HCCL_SEND : HCCL_RECV,
                     sends ? const_cast<void*>(call.send) : call.receive, call.count, type,
                     static_cast<uint32_t>(call.root)});
  }
  return call("HcclBatchSendRecv", [&](const Functions& hccl) {
    return hccl.HcclBatchSendRecv(items.data(), static_cast<uint32_t>(items.size()), native_,
                                  stream.native());
  });
}

}  // namespace keel::ascend
