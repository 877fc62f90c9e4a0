// SPDX-License-Identifier: Apache-2.0
// Rows of float32 or of a 16-bit type, which kernels see as blocks of float32 either way.
#ifndef KEEL_BACKENDS_CPU_FLOAT_ROWS_H_
#define KEEL_BACKENDS_CPU_FLOAT_ROWS_H_

#include <keel/abi.h>

#include <algorithm>
#include <cstdint>
#include <keel/float_types.hpp>

#include "backends/cpu/kernels.h"

namespace keel::cpu::kernels {

// Elements of a block. Its sums are float32, those of blocks float64: the error grows with the
// few dozen additions of a lane, not with the length of a row.
inline constexpr int64_t kBlock = 512;

// An array that is read.
class ReadFloats {
 public:
  ReadFloats() = default;  // none
  ReadFloats(const void* data, keel_dtype dtype)
      : data_(static_cast<const char*>(data)),
        size_(dtype == KEEL_FLOAT32 ? 4 : 2),
        is_bfloat16_(dtype == KEEL_BFLOAT16),
        widen_(dtype == KEEL_FLOAT32 ? nullptr : cast_function(dtype, KEEL_FLOAT32)) {}

  explicit operator bool() const { return data_ != nullptr; }
  // Where it lies, if it is bfloat16, which vectors widen as they are loaded; else NULL.
  const bfloat16_t* bfloat16() const {
    return is_bfloat16_ ? reinterpret_cast<const bfloat16_t*>(data_) : nullptr;
  }
  // The array from |element| on.
  ReadFloats from(int64_t element) const {
    ReadFloats rest = *this;
    rest.data_ += element * size_;
    return rest;
  }
  // |count| elements from |first| on: where they lie, or widened into |room|.
  const float* block(int64_t first, int64_t count, float* room) const {
    const char* const begin = data_ + first * size_;
    if (widen_ == nullptr) return reinterpret_cast<const float*>(begin);
    widen_(begin, room, count);
    return room;
  }
  // Asks for the memory of the |element|-th, which need not be there.
  void prefetch(int64_t element) const { __builtin_prefetch(data_ + element * size_); }
  // The |element|-th.
  float operator[](int64_t element) const {
    float room = 0;
    return *block(element, 1, &room);
  }
  // body(first, block, width) for its first |count| elements in their order: one block where they
  // lie as float32, else blocks that are widened.
  template <typename Body>
  void for_each_block(int64_t count, const Body& body) const {
    float room[kBlock];
    const int64_t step = widen_ == nullptr ? count : kBlock;
    for (int64_t first = 0; first < count; first += step) {
      const int64_t width = std::min(step, count - first);
      body(first, block(first, width, room), width);
    }
  }
  // Its first |count| elements as float32 wherever they lie, for what is read several times.
  ReadFloats widened(int64_t count, float* room) const {
    return widen_ == nullptr ? *this : ReadFloats(block(0, count, room), KEEL_FLOAT32);
  }
  // The same for what loads bfloat16 itself.
  ReadFloats loadable(int64_t count, float* room) const {
    return is_bfloat16_ ? *this : widened(count, room);
  }
  // Floats of room that |count| elements take to widen.
  int64_t room(int64_t count) const { return widen_ == nullptr ? 0 : count; }

 private:
  const char* data_ = nullptr;
  int64_t size_ = 0;
  bool is_bfloat16_ = false;
  CastFunction widen_ = nullptr;
};

// An array that is written.
class WrittenFloats {
 public:
  // |goes_past_caches|: who can writes it without reading its memory first, and leaves in the
  // caches what is there.
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
  // Whether it is to be written past the caches, and can be: float32 that begins at a line of them.
  // (Of bfloat16 vectors are half a line: layer_norm_backward took 1.1 times as long by them.)
  bool is_streamed() const {
    constexpr uintptr_t kLine = 64;
    return goes_past_caches_ && narrow_ == nullptr &&
           reinterpret_cast<uintptr_t>(data_) % kLine == 0;
  }
  // Where to put the elements from |first| on: where they belong, or |room|.
  float* block(int64_t first, float* room) const {
    return narrow_ == nullptr ? reinterpret_cast<float*>(data_ + first * size_) : room;
  }
  // Asks for the memory of the |element|-th.
  void prefetch(int64_t element) const {
    char* const wanted = data_ + element * size_;
#if defined(__x86_64__)
    // Compilers know of it only where they may use an extension; each processor takes it, if only
    // as nothing.
    asm volatile("prefetchw %0" : : "m"(*wanted));
#else
    __builtin_prefetch(wanted, /*for writing*/ 1);
#endif
  }
  // One element.
  void put(int64_t element, float value) const {
    float* const to = block(element, &value);
    *to = value;
    finish(element, 1, to);
  }
  // Makes its first |count| elements 0.
  void clear(int64_t count) const {
    std::fill_n(data_, count * size_, '\0');
  }
  // The |count| of them have been put there.
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

#endif  // KEEL_BACKENDS_CPU_FLOAT_ROWS_H_
