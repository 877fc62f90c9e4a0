// SPDX-License-Identifier: Apache-2.0
// Rows of float32 or of a 16-bit float type, presented to kernels as blocks of float32.
#ifndef KEEL_BACKENDS_CPU_KERNELS_FLOAT_ROWS_H_
#define KEEL_BACKENDS_CPU_KERNELS_FLOAT_ROWS_H_

#include <keel/abi.h>

#include <algorithm>
#include <cstdint>
#include <keel/float_types.hpp>

#include "backends/cpu/kernels/kernels.h"

namespace keel::cpu::kernels {

// Elements per block. Sums within a block are float32, sums of blocks are float64: the error grows
// with the few dozen additions of a lane, not with the length of a row.
inline constexpr int64_t kBlock = 512;

// An input array.
class ReadFloats {
 public:
  ReadFloats() = default;  // absent
  ReadFloats(const void* data, keel_dtype dtype)
      : data_(static_cast<const char*>(data)),
        size_(dtype == KEEL_FLOAT32 ? 4 : 2),
        is_bfloat16_(dtype == KEEL_BFLOAT16),
        widen_(dtype == KEEL_FLOAT32 ? nullptr : cast_function(dtype, KEEL_FLOAT32)) {}

  explicit operator bool() const { return data_ != nullptr; }
  // The array's address if the dtype is bfloat16, which vector loads widen directly; else NULL.
  const bfloat16_t* bfloat16() const {
    return is_bfloat16_ ? reinterpret_cast<const bfloat16_t*>(data_) : nullptr;
  }
  // The array from |element| on.
  ReadFloats from(int64_t element) const {
    ReadFloats rest = *this;
    rest.data_ += element * size_;
    return rest;
  }
  // |count| elements from |first| on: a pointer into the array, or to |room| after widening.
  const float* block(int64_t first, int64_t count, float* room) const {
    const char* const begin = data_ + first * size_;
    if (widen_ == nullptr) return reinterpret_cast<const float*>(begin);
    widen_(begin, room, count);
    return room;
  }
  // Prefetches element |element|, which may lie beyond the array.
  void prefetch(int64_t element) const { __builtin_prefetch(data_ + element * size_); }
  // Element |element|, widened.
  float operator[](int64_t element) const {
    float room = 0;
    return *block(element, 1, &room);
  }
  // Calls body(first, block, width) for the first |count| elements in order: once for float32, else
  // once per widened block.
  template <typename Body>
  void for_each_block(int64_t count, const Body& body) const {
    float room[kBlock];
    const int64_t step = widen_ == nullptr ? count : kBlock;
    for (int64_t first = 0; first < count; first += step) {
      const int64_t width = std::min(step, count - first);
      body(first, block(first, width, room), width);
    }
  }
  // The first |count| elements as float32, widened into |room| if necessary. For arrays that are
  // read several times.
  ReadFloats widened(int64_t count, float* room) const {
    return widen_ == nullptr ? *this : ReadFloats(block(0, count, room), KEEL_FLOAT32);
  }
  // Like widened, but returns bfloat16 arrays unchanged, for kernels that load bfloat16 directly.
  ReadFloats loadable(int64_t count, float* room) const {
    return is_bfloat16_ ? *this : widened(count, room);
  }
  // Floats of |room| that widening |count| elements takes.
  int64_t room(int64_t count) const { return widen_ == nullptr ? 0 : count; }

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
  bool is_bfloat16_ = false;
  CastFunction widen_ = nullptr;
};

// An output array.
class WrittenFloats {
 public:
  // |goes_past_caches|: kernels that support non-temporal stores use them, which skips reading the
  // memory first and leaves the caches' contents alone.
  WrittenFloats(void* data, keel_dtype dtype, bool goes_past_caches = false)
      : data_(static_cast<char*>(data)),
        size_(dtype == KEEL_FLOAT32 ? 4 : 2),
        is_bfloat16_(dtype == KEEL_BFLOAT16),
        goes_past_caches_(goes_past_caches),
        narrow_(dtype == KEEL_FLOAT32 ? nullptr : cast_function(KEEL_FLOAT32, dtype)) {}

  WrittenFloats from(int64_t element) const {
    WrittenFloats rest = *this;
    rest.data_ += element * size_;
    return rest;
  }
  bfloat16_t* bfloat16() const {
    return is_bfloat16_ ? reinterpret_cast<bfloat16_t*>(data_) : nullptr;
  }
  // Whether to use non-temporal stores: requested, float32, and aligned to a cache line. (Vectors
  // of bfloat16 are half a line: layer_norm_backward took 1.1 times as long with non-temporal
  // stores.)
  bool is_streamed() const {
    constexpr uintptr_t kLine = 64;
    return goes_past_caches_ && narrow_ == nullptr &&
           reinterpret_cast<uintptr_t>(data_) % kLine == 0;
  }
  // The buffer for the elements from |first| on: a pointer into the array, or |room|. Follow with
  // finish.
  float* block(int64_t first, float* room) const {
    return narrow_ == nullptr ? reinterpret_cast<float*>(data_ + first * size_) : room;
  }
  // Prefetches element |element| for writing.
  void prefetch(int64_t element) const {
    char* const wanted = data_ + element * size_;
#if defined(__x86_64__)
    // Compilers emit prefetchw only where the target has the extension; processors without the
    // extension execute prefetchw as a no-op.
    asm volatile("prefetchw %0" : : "m"(*wanted));
#else
    __builtin_prefetch(wanted, /*for writing*/ 1);
#endif
  }
  // Writes one element.
  void put(int64_t element, float value) const {
    float* const to = block(element, &value);
    *to = value;
    finish(element, 1, to);
  }
  // Sets the first |count| elements to 0.
  void clear(int64_t count) const {
    std::fill_n(data_, count * size_, '\0');
  }
  // Completes a block after the caller has filled |count| elements: narrows them into a 16-bit
  // array.
  void finish(int64_t first, int64_t count, const float* block) const {
    if (narrow_ != nullptr) narrow_(block, data_ + first * size_, count);
  }

 private:
  char* data_;
  int64_t size_;
  bool is_bfloat16_;
  bool goes_past_caches_;
  CastFunction narrow_;
};

}  // namespace keel::cpu::kernels

#endif  // KEEL_BACKENDS_CPU_KERNELS_FLOAT_ROWS_H_
