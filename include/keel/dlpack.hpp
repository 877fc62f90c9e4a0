// SPDX-License-Identifier: Apache-2.0
// Converts tensors between Keel and DLPack, without copies. Included by keel.hpp where
// <dlpack/dlpack.h> is found; supports both forms of a managed tensor where that header has both
// (DLPack 1.0 and later).
//
// DLPack devices for Keel's:
//
//   memory                          DLPack device       |data|
//   the CPU backend's; pinned       kDLCPU, 0           the host's address
//   vulkan:n                        kDLVulkan, n        VkDeviceAddress (no VkBuffer)
//   cuda:n, hip:n                   kDLCUDA, kDLROCM, n device address
//   any other                       kDLExtDev, n        device address
//
// In the first row |data| comes from the host alias, since DLPack, unlike keel_tensor, promises
// memory that the host may dereference. |data| is NULL for a tensor without elements. Where there
// is no alias, as with KEEL_CPU_GUARD=1, to_dlpack throws KEEL_UNSUPPORTED: copy to pinned memory
// first.
//
// DLPack orders no work: before the consumer reads, synchronise the producer's stream or wait for
// an event.
#ifndef KEEL_DLPACK_HPP_
#define KEEL_DLPACK_HPP_

#include <dlpack/dlpack.h>
#include <keel/keel.h>

#include <algorithm>
#include <cstdint>
#include <keel/buffer.hpp>
#include <keel/device.hpp>
#include <keel/error.hpp>
#include <keel/tensor.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace keel {
inline namespace v0 {
// DLPack's device for a Keel device by name: "vulkan:1", or "vulkan#2:1" of a second instance.
// Pinned memory is kDLCPU on every device.
inline DLDevice dlpack_device(std::string_view name) {
  const size_t colon = name.rfind(':');
  const std::string_view backend = name.substr(0, std::min(name.find('#'), colon));
  const int ordinal = std::stoi(std::string(name.substr(colon + 1)));
  if (backend == "cpu") return {kDLCPU, 0};
  if (backend == "vulkan") return {kDLVulkan, ordinal};
  if (backend == "cuda") return {kDLCUDA, ordinal};
  if (backend == "hip") return {kDLROCM, ordinal};
  return {kDLExtDev, ordinal};
}

namespace api_detail {

inline DLDataType dlpack_dtype(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT8:
      return {kDLInt, 8, 1};
    case KEEL_INT16:
      return {kDLInt, 16, 1};
    case KEEL_INT32:
      return {kDLInt, 32, 1};
    case KEEL_INT64:
      return {kDLInt, 64, 1};
    case KEEL_UINT8:
      return {kDLUInt, 8, 1};
    case KEEL_UINT16:
      return {kDLUInt, 16, 1};
    case KEEL_UINT32:
      return {kDLUInt, 32, 1};
    case KEEL_UINT64:
      return {kDLUInt, 64, 1};
    case KEEL_FLOAT16:
      return {kDLFloat, 16, 1};
    case KEEL_BFLOAT16:
      return {kDLBfloat, 16, 1};
    case KEEL_FLOAT32:
      return {kDLFloat, 32, 1};
    case KEEL_FLOAT64:
      return {kDLFloat, 64, 1};
    // By number: headers before DLPack 1.1 do not name these types.
    case KEEL_FLOAT8_E4M3FN:
      return {10, 8, 1};
    case KEEL_FLOAT8_E5M2:
      return {12, 8, 1};
    // Types that only collectives and copies take; by number, as above.
    case KEEL_BOOL:
      return {6, 8, 1};
    case KEEL_COMPLEX64:
      return {5, 64, 1};
    case KEEL_COMPLEX128:
      return {5, 128, 1};
    default:
      throw Error(KEEL_INVALID_ARGUMENT, "dlpack: dtype " + std::to_string(dtype) + " is none");
  }
}

inline keel_dtype keel_dtype_of(DLDataType wanted) {
  const auto is_wanted = [&](keel_dtype dtype) {
    const DLDataType known = dlpack_dtype(dtype);
    return known.code == wanted.code && known.bits == wanted.bits && known.lanes == wanted.lanes;
  };
  for (keel_dtype dtype = KEEL_DTYPE_INVALID + 1; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    if (is_wanted(dtype)) return dtype;
  }
  for (const keel_dtype dtype : {KEEL_BOOL, KEEL_COMPLEX64, KEEL_COMPLEX128}) {
    if (is_wanted(dtype)) return dtype;
  }
  throw Error(KEEL_UNSUPPORTED, "dlpack: no dtype for code " + std::to_string(wanted.code) + ", " +
                                    std::to_string(wanted.bits) + " bits, " +
                                    std::to_string(wanted.lanes) + " lanes");
}

// A managed tensor with the arrays and the owner that it points to.
template <typename Managed>
struct DlpackHolder {
  Managed managed = {};
  std::array<int64_t, KEEL_MAX_RANK> shape{};
  std::array<int64_t, KEEL_MAX_RANK> strides{};
  std::shared_ptr<void> owner;
};

template <typename Managed>
std::unique_ptr<DlpackHolder<Managed>> hold(const keel_tensor& tensor, keel_device device,
                                            std::shared_ptr<void> owner) {
  auto holder = std::make_unique<DlpackHolder<Managed>>();
  std::copy_n(tensor.shape, tensor.rank, holder->shape.begin());
  std::copy_n(tensor.strides, tensor.rank, holder->strides.begin());
  holder->owner = std::move(owner);

  DLTensor& out = holder->managed.dl_tensor;
  out.ndim = static_cast<int32_t>(tensor.rank);
  out.dtype = dlpack_dtype(tensor.dtype);
  out.shape = holder->shape.data();
  out.strides = holder->strides.data();
  out.byte_offset = tensor.byte_offset;
  out.data = tensor.data;
  out.device = dlpack_device(Device(device).name());
  const std::span<const int64_t> shape(tensor.shape, tensor.rank);
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  if (tensor.data != nullptr) {  // an empty tensor may have no memory
    keel_memory_info memory = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    check(keel_memory_find(device, tensor.data, &memory));
    if (out.device.device_type == kDLCPU || memory.kind == KEEL_MEMORY_PINNED) {
      if (memory.host_alias == nullptr && !is_empty) {
        throw Error(KEEL_UNSUPPORTED, "dlpack: the host cannot reach this memory");
      }
      const auto offset = static_cast<char*>(tensor.data) - static_cast<char*>(memory.base);
      if (!is_empty) out.data = static_cast<char*>(memory.host_alias) + offset;
      out.device = {kDLCPU, 0};
    }
  }
  if (is_empty) {  // DLPack wants NULL where there are no elements
    out.data = nullptr;
    out.byte_offset = 0;
  }
  holder->managed.manager_ctx = holder.get();
  holder->managed.deleter = [](Managed* managed) {
    delete static_cast<DlpackHolder<Managed>*>(managed->manager_ctx);
  };
  return holder;
}

inline keel_tensor view_of(const DLTensor& tensor) {
  const auto rank = static_cast<size_t>(tensor.ndim);
  const std::span<const int64_t> shape(tensor.shape, rank);
  const std::span<const int64_t> strides(tensor.strides, tensor.strides == nullptr ? 0 : rank);
  if (std::ranges::any_of(strides, [](int64_t stride) { return stride < 0; })) {
    throw Error(KEEL_UNSUPPORTED, "dlpack: negative strides");
  }
  keel_tensor view = make_tensor(tensor.data, keel_dtype_of(tensor.dtype), shape, strides);
  view.byte_offset = tensor.byte_offset;
  return view;
}

}  // namespace api_detail

// Wraps |tensor|, memory of |device|, for a consumer that calls the result's deleter, on any
// thread; the deleter releases |owner|, an object that keeps the memory alive:
//   to_dlpack(t, device.get(), std::make_shared<Buffer>(std::move(buffer)))
// Throws KEEL_NOT_FOUND if the memory is not the device's.
inline DLManagedTensor* to_dlpack(const keel_tensor& tensor, keel_device device,
                                  std::shared_ptr<void> owner) {
  return &api_detail::hold<DLManagedTensor>(tensor, device, std::move(owner)).release()->managed;
}

// Views |managed|, borrowed: the deleter stays with the caller. Memory of kDLCPU is host memory,
// the KEEL_HOST side of a copy, and not memory of the CPU device; other memory has addresses of the
// device that managed->dl_tensor.device names. Throws KEEL_UNSUPPORTED for dtypes that Keel does
// not have and for negative strides.
inline keel_tensor from_dlpack(const DLManagedTensor* managed) {
  return api_detail::view_of(managed->dl_tensor);
}

#ifdef DLPACK_MAJOR_VERSION
// to_dlpack with a version and flags. |read_only|: the consumer must not write.
inline DLManagedTensorVersioned* to_dlpack_versioned(const keel_tensor& tensor, keel_device device,
                                                     std::shared_ptr<void> owner,
                                                     bool read_only = false) {
  auto holder = api_detail::hold<DLManagedTensorVersioned>(tensor, device, std::move(owner));
  holder->managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  holder->managed.flags = read_only ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  return &holder.release()->managed;
}

// Throws KEEL_UNSUPPORTED also for another major version, whose layout is unknown.
inline keel_tensor from_dlpack(const DLManagedTensorVersioned* managed) {
  if (managed->version.major != DLPACK_MAJOR_VERSION) {
    throw Error(KEEL_UNSUPPORTED,
                "dlpack: major version " + std::to_string(managed->version.major));
  }
  return api_detail::view_of(managed->dl_tensor);
}
#endif

}  // namespace v0
}  // namespace keel

#endif  // KEEL_DLPACK_HPP_
