// SPDX-License-Identifier: Apache-2.0
// The types shared by kernels and all targets.
#ifndef KEEL_KERNELS_GPU_TYPES_H_
#define KEEL_KERNELS_GPU_TYPES_H_

#include <cstdint>

#include "kernels/gpu/arguments.h"

namespace keel::simt {

struct Index {
  uint32_t x, y, z;
};

// One bit for each thread of a warp.
template <uint32_t threads>
struct VotesOf;
template <>
struct VotesOf<32> {
  using Type = uint32_t;
};
template <>
struct VotesOf<64> {
  using Type = uint64_t;
};
using Votes = VotesOf<kWarp>::Type;

// Storage types of 16-bit floats.
struct bf16 {
  uint16_t bits;
};
struct f16 {
  uint16_t bits;
};
// 16 opaque bytes.
struct alignas(16) Unit16 {
  uint32_t words[4];
};

// |n| elements loaded and stored together, in accesses of up to 16 bytes.
template <typename T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Lanes {
  T at[n];
};

template <typename T>
struct PlainOf {
  using Type = T;
};
template <typename T>
struct PlainOf<const T> {
  using Type = T;
};
template <typename T>
using Plain = typename PlainOf<T>::Type;

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_TYPES_H_
