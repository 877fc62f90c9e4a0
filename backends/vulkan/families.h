// SPDX-License-Identifier: Apache-2.0
// Dtypes and axes as values of a kernel, for elementwise, reduce, gather and scatter.
#ifndef KEEL_BACKENDS_VULKAN_FAMILIES_H_
#define KEEL_BACKENDS_VULKAN_FAMILIES_H_

#include <keel/abi.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <keel/plugin/numbers.hpp>
#include <keel/plugin_kit.hpp>

#include "backends/vulkan/ops.h"

namespace keel::vulkan {

// The dtypes that kernels with dtypes as values know, in the numbering of typed.glsl.
enum class ElementType : uint32_t {
  kInt8,
  kUint8,
  kInt16,
  kFloat16,
  kBfloat16,
  kInt32,
  kFloat32,
  kInt64,
  kFloat64,
  kNone,
};

constexpr ElementType element_type(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT8:
      return ElementType::kInt8;
    case KEEL_UINT8:
      return ElementType::kUint8;
    case KEEL_INT16:
      return ElementType::kInt16;
    case KEEL_FLOAT16:
      return ElementType::kFloat16;
    case KEEL_BFLOAT16:
      return ElementType::kBfloat16;
    case KEEL_INT32:
      return ElementType::kInt32;
    case KEEL_FLOAT32:
      return ElementType::kFloat32;
    case KEEL_INT64:
      return ElementType::kInt64;
    case KEEL_FLOAT64:
      return ElementType::kFloat64;
    default:
      return ElementType::kNone;
  }
}

// The type that a kernel computes in.
enum class Compute { kFloat32, kFloat64, kInt64 };

inline bool can_compute(const Device& device, Compute type) {
  const PhysicalDevice::KernelLimits& kernels = device.physical().kernels;
  return type == Compute::kFloat32 || (type == Compute::kFloat64 ? kernels.float64 : kernels.int64);
}

// For elementwise and reduce.
inline Compute compute_type(const keel_op_call& call) {
  const keel_dtype type = kit::compute_dtype(call);
  if (type == KEEL_FLOAT64) return Compute::kFloat64;
  return type == KEEL_INT64 ? Compute::kInt64 : Compute::kFloat32;
}

// Whether a kernel can address all tensors, of known dtypes: shaders count elements in 32 bits, and
// one module loads elements of any size.
inline bool can_address(const Device& device, const keel_op_call& call) {
  const PhysicalDevice& physical = device.physical();
  if (!physical.storage_16bit || !physical.kernels.storage_8bit) return false;
  const auto fits = [](const keel_tensor* tensor) {
    return tensor == nullptr ||
           (element_type(tensor->dtype) != ElementType::kNone &&
            kit::element_count(*tensor) < kMaxElements &&
            kit::span_bytes(*tensor) < uint64_t{kMaxElements} * kit::dtype_size(tensor->dtype));
  };
  return std::all_of(call.inputs, call.inputs + call.input_count, fits) &&
         std::all_of(call.outputs, call.outputs + call.output_count, fits);
}

// The bits of |number| in the type that a kernel computes in.
inline uint64_t number_bits(double number, Compute type) {
  uint64_t bits = 0;
  if (type == Compute::kFloat64) {
    std::memcpy(&bits, &number, sizeof(number));
  } else if (type == Compute::kFloat32) {
    const auto value = static_cast<float>(number);
    std::memcpy(&bits, &value, sizeof(value));
  } else {
    bits = static_cast<uint64_t>(kit::truncated(number));
  }
  return bits;
}

// Axes that some tensors share, fastest first.
template <size_t kTensors>
struct Axes {
  struct Axis {
    uint32_t extent;
    std::array<uint32_t, kTensors> strides;
  };

  // Adds a slower axis. An axis of one element is dropped, and one that continues the axis before
  // in every tensor becomes part of it; the row-major order stays.
  void add(int64_t extent, const std::array<int64_t, kTensors>& strides) {
    if (extent == 1) return;
    if (rank != 0) {
      Axis& last = axes[rank - 1];
      bool continues = true;
      for (size_t i = 0; i < kTensors; ++i) {
        continues &= strides[i] == int64_t{last.strides[i]} * last.extent;
      }
      if (continues) {
        last.extent *= static_cast<uint32_t>(extent);
        return;
      }
    }
    Axis& axis = axes[rank++];
    axis.extent = static_cast<uint32_t>(extent);
    for (size_t i = 0; i < kTensors; ++i) axis.strides[i] = static_cast<uint32_t>(strides[i]);
  }

  // At least one axis: kernels begin with the fastest.
  void finish() {
    if (rank == 0) axes[rank++] = {1, {}};
  }

  uint32_t rank = 0;
  std::array<Axis, KEEL_MAX_RANK> axes = {};
};

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_FAMILIES_H_
