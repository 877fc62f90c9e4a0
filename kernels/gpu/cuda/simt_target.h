// SPDX-License-Identifier: Apache-2.0
// The primitives of simt.h for CUDA.
#ifndef KEEL_KERNELS_GPU_CUDA_SIMT_TARGET_H_
#define KEEL_KERNELS_GPU_CUDA_SIMT_TARGET_H_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/gpu/types.h"

#define KEEL_SIMT_FUNCTION __device__ __forceinline__
#define KEEL_SIMT_CALLED __device__ __noinline__

#define KEEL_SIMT_KERNEL(name, Arguments)                            \
  extern "C" __global__ void __launch_bounds__(keel::simt::kThreads) \
      keel_##name(const Arguments args)

#define KEEL_SIMT_SHARED(Type, name, count) __shared__ Type name[count]

namespace keel::simt {

KEEL_SIMT_FUNCTION Index thread_index() {
  return {threadIdx.x, threadIdx.y, threadIdx.z};
}
KEEL_SIMT_FUNCTION Index block_index() {
  return {blockIdx.x, blockIdx.y, blockIdx.z};
}
KEEL_SIMT_FUNCTION Index grid_size() {
  return {gridDim.x, gridDim.y, gridDim.z};
}

KEEL_SIMT_FUNCTION void barrier() {
  __syncthreads();
}
KEEL_SIMT_FUNCTION float shuffle_xor(float value, uint32_t mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
KEEL_SIMT_FUNCTION Votes vote(bool value) {
  return __ballot_sync(0xffffffffu, value);
}

KEEL_SIMT_FUNCTION float to_float(bf16 value) {
  return __bfloat162float(__ushort_as_bfloat16(value.bits));
}
KEEL_SIMT_FUNCTION float to_float(f16 value) {
  return __half2float(__ushort_as_half(value.bits));
}
KEEL_SIMT_FUNCTION bf16 to_bf16(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}
KEEL_SIMT_FUNCTION f16 to_f16(float value) {
  return {__half_as_ushort(__float2half_rn(value))};
}
// Truncates; saturates beyond the range; NaN gives 0.
KEEL_SIMT_FUNCTION int32_t to_i32(float value) {
  return __float2int_rz(value);
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

#endif  // KEEL_KERNELS_GPU_CUDA_SIMT_TARGET_H_
