// SPDX-License-Identifier: Apache-2.0
// The primitives of simt.h for Level Zero: C++ for a HIP device, which clang compiles for SPIR-V.
// The functions of the global namespace are OpenCL C's, known to every consumer of SPIR-V kernels.
#ifndef KEEL_KERNELS_GPU_LEVEL_ZERO_SIMT_TARGET_H_
#define KEEL_KERNELS_GPU_LEVEL_ZERO_SIMT_TARGET_H_

#include <cstdint>

#include "kernels/gpu/types.h"

#define KEEL_SIMT_FUNCTION __attribute__((device, always_inline)) inline
#define KEEL_SIMT_CALLED __attribute__((device, noinline))

#define KEEL_SIMT_KERNEL(name, Arguments) \
  extern "C" __attribute__((global)) void keel_##name(const Arguments args)

#define KEEL_SIMT_SHARED(Type, name, count) static __attribute__((shared)) Type name[count]

#define KEEL_OPENCL __attribute__((device))
KEEL_OPENCL unsigned long get_local_id(unsigned dimension);
KEEL_OPENCL unsigned long get_group_id(unsigned dimension);
KEEL_OPENCL unsigned long get_num_groups(unsigned dimension);
KEEL_OPENCL void barrier(unsigned flags);
KEEL_OPENCL unsigned intel_sub_group_shuffle_xor(unsigned value, unsigned mask);

// The functions of real numbers, in both precisions: |name| of OpenCL C is overloaded, and the
// kernels call those of float by the names of C. A module has 64-bit floats only if one of its
// kernels calls for them.
#define KEEL_OPENCL_1(name)                   \
  KEEL_OPENCL float name(float x);            \
  KEEL_OPENCL double name(double x);          \
  KEEL_SIMT_FUNCTION float name##f(float x) { \
    return name(x);                           \
  }
#define KEEL_OPENCL_2(name)                            \
  KEEL_OPENCL float name(float x, float y);            \
  KEEL_OPENCL double name(double x, double y);         \
  KEEL_SIMT_FUNCTION float name##f(float x, float y) { \
    return name(x, y);                                 \
  }
KEEL_OPENCL_1(exp)
KEEL_OPENCL_1(exp2)
KEEL_OPENCL_1(expm1)
KEEL_OPENCL_1(log)
KEEL_OPENCL_1(log2)
KEEL_OPENCL_1(log1p)
KEEL_OPENCL_1(sqrt)
KEEL_OPENCL_1(sin)
KEEL_OPENCL_1(cos)
KEEL_OPENCL_1(tanh)
KEEL_OPENCL_1(erf)
KEEL_OPENCL_1(erfc)
KEEL_OPENCL_1(fabs)
KEEL_OPENCL_1(floor)
KEEL_OPENCL_1(ceil)
KEEL_OPENCL_1(rint)
KEEL_OPENCL_1(trunc)
KEEL_OPENCL_2(pow)
KEEL_OPENCL_2(fmod)
KEEL_OPENCL_2(atan2)
KEEL_OPENCL_2(fmax)
KEEL_OPENCL_2(fmin)
#undef KEEL_OPENCL_1
#undef KEEL_OPENCL_2
KEEL_OPENCL float fma(float a, float b, float c);
#undef KEEL_OPENCL

KEEL_SIMT_FUNCTION float fmaf(float a, float b, float c) {
  return fma(a, b, c);
}

namespace keel::simt {

KEEL_SIMT_FUNCTION Index thread_index() {
  return {static_cast<uint32_t>(get_local_id(0)), static_cast<uint32_t>(get_local_id(1)),
          static_cast<uint32_t>(get_local_id(2))};
}
KEEL_SIMT_FUNCTION Index block_index() {
  return {static_cast<uint32_t>(get_group_id(0)), static_cast<uint32_t>(get_group_id(1)),
          static_cast<uint32_t>(get_group_id(2))};
}
KEEL_SIMT_FUNCTION Index grid_size() {
  return {static_cast<uint32_t>(get_num_groups(0)), static_cast<uint32_t>(get_num_groups(1)),
          static_cast<uint32_t>(get_num_groups(2))};
}

// Orders accesses to local and to global memory, as __syncthreads does.
KEEL_SIMT_FUNCTION void barrier() {
  constexpr unsigned kLocal = 1;
  constexpr unsigned kGlobal = 2;
  ::barrier(kLocal | kGlobal);
}

// A warp is a subgroup: cmake/KeelSpirv.cmake requires kWarp threads in each.
KEEL_SIMT_FUNCTION float shuffle_xor(float value, uint32_t mask) {
  return __builtin_bit_cast(float,
                            intel_sub_group_shuffle_xor(__builtin_bit_cast(uint32_t, value), mask));
}
KEEL_SIMT_FUNCTION uint32_t vote(bool value) {
  uint32_t votes = value ? 1u << (thread_index().x % kWarp) : 0;
  for (uint32_t mask = 1; mask < kWarp; mask *= 2) {
    votes |= intel_sub_group_shuffle_xor(votes, mask);
  }
  return votes;
}

KEEL_SIMT_FUNCTION float to_float(bf16 value) {
  return __builtin_bit_cast(float, uint32_t{value.bits} << 16);
}
KEEL_SIMT_FUNCTION float to_float(f16 value) {
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
}
KEEL_SIMT_FUNCTION bf16 to_bf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if (!(value == value)) return {0x7fff};
  return {static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
KEEL_SIMT_FUNCTION f16 to_f16(float value) {
  return {__builtin_bit_cast(uint16_t, static_cast<_Float16>(value))};
}
// Truncates; saturates beyond the range; NaN gives 0.
KEEL_SIMT_FUNCTION int32_t to_i32(float value) {
  if (!(value == value)) return 0;
  if (value <= -0x1p31F) return INT32_MIN;
  return value >= 0x1p31F ? INT32_MAX : static_cast<int32_t>(value);
}

template <typename T>
class Global {
 public:
  KEEL_SIMT_FUNCTION explicit Global(uint64_t address) : data_(reinterpret_cast<T*>(address)) {}
  KEEL_SIMT_FUNCTION T& operator[](uint64_t i) const { return data_[i]; }
  template <int n>
  KEEL_SIMT_FUNCTION Lanes<Plain<T>, n> load(uint64_t i) const {
    return *reinterpret_cast<const Lanes<Plain<T>, n>*>(data_ + i);
  }
  template <int n>
  KEEL_SIMT_FUNCTION void store(uint64_t i, const Lanes<T, n>& lanes) const {
    *reinterpret_cast<Lanes<T, n>*>(data_ + i) = lanes;
  }

 private:
  T* data_;
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_LEVEL_ZERO_SIMT_TARGET_H_
