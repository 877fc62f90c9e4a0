// SPDX-License-Identifier: Apache-2.0
// The axes over which kernels of strided tensors iterate: as few as the strides allow.
#ifndef KEEL_BACKENDS_GPU_AXES_H_
#define KEEL_BACKENDS_GPU_AXES_H_

#include <keel/abi.h>

#include <algorithm>
#include <keel/plugin_kit.hpp>
#include <optional>

#include "kernels/gpu/tensor_arguments.h"

namespace keel::gpu {

// Returns nothing for a dtype that these kernels do not take.
inline std::optional<simt::ElementType> element_type(keel_dtype dtype) {
  using simt::ElementType;
  switch (dtype) {
    case KEEL_FLOAT64:
      return ElementType::f64;
    case KEEL_FLOAT32:
      return ElementType::f32;
    case KEEL_FLOAT16:
      return ElementType::f16;
    case KEEL_BFLOAT16:
      return ElementType::bf16;
    case KEEL_INT64:
      return ElementType::i64;
    case KEEL_INT32:
      return ElementType::i32;
    case KEEL_INT16:
      return ElementType::i16;
    case KEEL_INT8:
      return ElementType::i8;
    case KEEL_UINT8:
      return ElementType::u8;
    default:
      return std::nullopt;
  }
}

// A list of axes, the fastest last, without axes of one element.
template <uint32_t tensors>
class AxisList {
 public:
  using Axis = simt::Axis<tensors>;

  void add(int64_t extent, const int64_t (&strides)[tensors]) {
    if (extent == 1) return;
    Axis& axis = axes_[count_++];
    axis.extent = static_cast<uint64_t>(extent);
    for (uint32_t i = 0; i < tensors; ++i) axis.strides[i] = static_cast<uint64_t>(strides[i]);
  }

  // Orders axes by their strides in |tensor|, and of equals as they are: for functions to which the
  // order of elements is nothing.
  void sort_by(uint32_t tensor) {
    std::stable_sort(axes_, axes_ + count_, [&](const Axis& a, const Axis& b) {
      return a.strides[tensor] > b.strides[tensor];
    });
  }

  // Joins neighbours that are one axis in all tensors.
  void merge() {
    uint32_t kept = 0;
    for (uint32_t i = 1; i < count_; ++i) {
      Axis& outer = axes_[kept];
      const Axis& inner = axes_[i];
      bool is_one = true;
      for (uint32_t t = 0; t < tensors; ++t) {
        is_one &= outer.strides[t] == inner.strides[t] * inner.extent;
      }
      if (is_one) {
        const uint64_t extent = outer.extent * inner.extent;
        outer = inner;
        outer.extent = extent;
      } else {
        axes_[++kept] = inner;
      }
    }
    if (count_ != 0) count_ = kept + 1;
  }

  uint32_t count() const { return count_; }
  Axis& operator[](uint32_t i) { return axes_[i]; }
  const Axis& operator[](uint32_t i) const { return axes_[i]; }
  Axis& last() { return axes_[count_ - 1]; }
  const Axis& last() const { return axes_[count_ - 1]; }

  uint64_t elements() const {
    uint64_t elements = 1;
    for (uint32_t i = 0; i < count_; ++i) elements *= axes_[i].extent;
    return elements;
  }

  // Whether |tensor|, at |address| and with elements of |size| bytes, is read in accesses of
  // |bytes| wherever the axes but the last one lead.
  bool is_aligned(uint32_t tensor, uint64_t address, uint64_t size, uint64_t bytes) const {
    uint64_t all = address;
    for (uint32_t i = 0; i + 1 < count_; ++i) all |= axes_[i].strides[tensor] * size;
    return all % bytes == 0;
  }

  // Turns the elements of the last axis into groups of |each|.
  void group_last(uint32_t each) {
    last().extent /= each;
    for (uint64_t& stride : last().strides) stride *= each;
  }

  // Copies the axes into a kernel's arguments, and returns how many there are.
  uint32_t put(Axis (&out)[simt::kMaxAxes]) {
    for (uint32_t i = 0; i < count_; ++i) {
      out[i] = axes_[i];
      if (axes_[i].extent - 1 < kSmall) out[i].divider = simt::divider_of(axes_[i].extent);
    }
    return count_;
  }

  // Numbers below this one are divided by simt::Divider.
  static constexpr uint64_t kSmall = uint64_t{1} << 31;

 private:
  uint32_t count_ = 0;
  Axis axes_[simt::kMaxAxes] = {};
};

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_AXES_H_
