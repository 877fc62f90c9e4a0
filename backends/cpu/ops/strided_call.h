// SPDX-License-Identifier: Apache-2.0
// Helpers for calls whose tensors have any strides: the arguments that a task keeps, and boxes of
// tensors as arrays of a compute type.
#ifndef KEEL_BACKENDS_CPU_OPS_STRIDED_CALL_H_
#define KEEL_BACKENDS_CPU_OPS_STRIDED_CALL_H_

#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/kernels/families.h"
#include "backends/cpu/kernels/loops.h"
#include "backends/cpu/ops/ops.h"

namespace keel::cpu {

// A tensor without its shape.
struct Strided {
  char* data;  // host address of the first element; NULL for an absent tensor
  keel_dtype dtype;
  int64_t strides[KEEL_MAX_RANK];
};

inline Strided strided(const Stream& stream, const keel_tensor* tensor) {
  Strided result = {};
  if (tensor == nullptr) return result;
  result.data = address<char>(stream, *tensor);
  result.dtype = tensor->dtype;
  std::copy(tensor->strides, tensor->strides + tensor->rank, result.strides);
  return result;
}

struct Shape {
  uint32_t rank;
  int64_t extent[KEEL_MAX_RANK];
};

inline Shape shape_of(const keel_tensor& tensor) {
  Shape result = {};
  result.rank = tensor.rank;
  std::copy(tensor.shape, tensor.shape + tensor.rank, result.extent);
  return result;
}

// Elements of a box: 4 KiB of each operand stay in the first level of the cache. Of boxes with two
// sides, which must be long both ways, 8 KiB; for the others that would be a fifth slower.
template <typename Number>
inline constexpr int64_t kBoxElements = 4096 / static_cast<int64_t>(sizeof(Number));
template <typename Number>
inline constexpr int64_t kTileElements = 2 * kBoxElements<Number>;

// Memory for a box of elements as their dtype has them.
template <typename Number>
struct RawBox {
  alignas(64) char bytes[kTileElements<Number> * 8];
};

// Reads boxes of one operand of |loops|, which outlives the reader.
template <typename Number>
class BoxReader {
 public:
  BoxReader(const kernels::Loops& loops, uint32_t operand, const char* data, keel_dtype dtype)
      : loops_(loops),
        operand_(operand),
        data_(data),
        size_(kit::dtype_size(dtype)),
        load_(kernels::family<Number>().load[dtype]),
        is_dense_(loops.is_dense(operand)) {
    for (uint32_t axis = 0; axis < loops.rank; ++axis) {
      repeats_ |= loops.stride[operand][axis] == 0 && loops.box[axis] < loops.extent[axis];
    }
  }

  // The elements of |box|, dense: in the tensor, or in |room|, which the next call with the same
  // |room| may find filled.
  const Number* read(const kernels::Box& box, RawBox<Number>* raw, Number* room) {
    const char* const from = data_ + box.offset[operand_] * size_;
    if (is_dense_ && load_ == nullptr) return reinterpret_cast<const Number*>(from);
    if (repeats_ && is_last(from, box)) return room;
    if (is_dense_) {
      load_(from, room, box.count);
    } else if (load_ == nullptr) {
      kernels::gather_box(loops_, operand_, box, size_, data_, room);
    } else {
      kernels::gather_box(loops_, operand_, box, size_, data_, raw->bytes);
      load_(raw->bytes, room, box.count);
    }
    return room;
  }

 private:
  // Whether the last call read the same elements, as for a tensor that is broadcast.
  bool is_last(const char* from, const kernels::Box& box) {
    if (from == last_ && std::equal(box.extent, box.extent + loops_.rank, last_extent_))
      return true;
    last_ = from;
    std::copy(box.extent, box.extent + loops_.rank, last_extent_);
    return false;
  }

  const kernels::Loops& loops_;
  const uint32_t operand_;
  const char* const data_;
  const uint32_t size_;
  void (*const load_)(const void*, Number*, int64_t);
  const bool is_dense_;
  bool repeats_ = false;
  const char* last_ = nullptr;
  int64_t last_extent_[KEEL_MAX_RANK];
};

// Writes boxes of operand 0 of |loops|, which outlives the writer.
template <typename Number>
class BoxWriter {
 public:
  // |past_caches|: dense rows are written past the caches; call finish() at the end.
  BoxWriter(const kernels::Loops& loops, const Strided& tensor, bool past_caches)
      : loops_(loops),
        data_(tensor.data),
        size_(kit::dtype_size(tensor.dtype)),
        store_(kernels::family<Number>().store[tensor.dtype]),
        is_dense_(loops.is_dense(0)),
        is_streamed_(past_caches) {}

  // Where to compute the elements of |box|: in the tensor, or |room|. Follow with write.
  Number* begin(const kernels::Box& box, Number* room) const {
    const bool is_direct = is_dense_ && store_ == nullptr && !is_streamed_;
    return is_direct ? reinterpret_cast<Number*>(address(box)) : room;
  }

  void write(const kernels::Box& box, const Number* from, RawBox<Number>* raw) {
    const void* bytes = from;
    if (store_ != nullptr) {
      void* const to = is_dense_ && !is_streamed_ ? static_cast<void*>(address(box)) : raw->bytes;
      store_(from, to, box.count);
      bytes = to;
    }
    if (!is_dense_) {
      kernels::scatter_box(loops_, 0, box, size_, bytes, data_, is_streamed_);
    } else if (is_streamed_) {
      kernels::stream_bytes(bytes, address(box), box.count * size_);
    }
  }

  void finish() const {
    if (is_streamed_) kernels::finish_streaming();
  }

 private:
  char* address(const kernels::Box& box) const { return data_ + box.offset[0] * size_; }

  const kernels::Loops& loops_;
  char* const data_;
  const uint32_t size_;
  void (*const store_)(const Number*, void*, int64_t);
  const bool is_dense_;
  const bool is_streamed_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_OPS_STRIDED_CALL_H_
