// SPDX-License-Identifier: Apache-2.0
// The functions of <cmath> that kernels call, from the device libraries of ROCm: the header of HIP,
// which has them too, needs more of HIP than is needed here.
#ifndef KEEL_KERNELS_GPU_HIP_DEVICE_MATH_H_
#define KEEL_KERNELS_GPU_HIP_DEVICE_MATH_H_

#define KEEL_HIP_MATH __attribute__((device)) inline __attribute__((always_inline))

extern "C" {
__attribute__((device)) __attribute__((const)) float __ocml_exp_f32(float);
__attribute__((device)) __attribute__((pure)) float __ocml_log_f32(float);
__attribute__((device)) __attribute__((const)) float __ocml_sqrt_f32(float);
}

KEEL_HIP_MATH float expf(float x) {
  return __ocml_exp_f32(x);
}
KEEL_HIP_MATH float logf(float x) {
  return __ocml_log_f32(x);
}
KEEL_HIP_MATH float sqrtf(float x) {
  return __ocml_sqrt_f32(x);
}
KEEL_HIP_MATH float fabsf(float x) {
  return __builtin_fabsf(x);
}
KEEL_HIP_MATH float fmaf(float x, float y, float z) {
  return __builtin_fmaf(x, y, z);
}
KEEL_HIP_MATH float fmaxf(float x, float y) {
  return __builtin_fmaxf(x, y);
}
KEEL_HIP_MATH float fminf(float x, float y) {
  return __builtin_fminf(x, y);
}

extern "C" KEEL_HIP_MATH void* memcpy(void* to, const void* from, decltype(sizeof(0)) size) {
  return __builtin_memcpy(to, from, size);
}

#undef KEEL_HIP_MATH

#endif  // KEEL_KERNELS_GPU_HIP_DEVICE_MATH_H_
