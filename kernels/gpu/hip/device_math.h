// SPDX-License-Identifier: Apache-2.0
// The functions of <cmath> that kernels call, from the device libraries of ROCm: the header of HIP,
// which has them too, needs more of HIP than is needed here.
#ifndef KEEL_KERNELS_GPU_HIP_DEVICE_MATH_H_
#define KEEL_KERNELS_GPU_HIP_DEVICE_MATH_H_

#define KEEL_HIP_MATH __attribute__((device)) inline __attribute__((always_inline))

// The library's functions of one and of two numbers, in both precisions.
#define KEEL_HIP_LIBRARY_1(name)                                               \
  extern "C" __attribute__((device, pure)) float __ocml_##name##_f32(float);   \
  extern "C" __attribute__((device, pure)) double __ocml_##name##_f64(double); \
  KEEL_HIP_MATH float name##f(float x) {                                       \
    return __ocml_##name##_f32(x);                                             \
  }                                                                            \
  KEEL_HIP_MATH double name(double x) {                                        \
    return __ocml_##name##_f64(x);                                             \
  }
#define KEEL_HIP_LIBRARY_2(name)                                                       \
  extern "C" __attribute__((device, pure)) float __ocml_##name##_f32(float, float);    \
  extern "C" __attribute__((device, pure)) double __ocml_##name##_f64(double, double); \
  KEEL_HIP_MATH float name##f(float x, float y) {                                      \
    return __ocml_##name##_f32(x, y);                                                  \
  }                                                                                    \
  KEEL_HIP_MATH double name(double x, double y) {                                      \
    return __ocml_##name##_f64(x, y);                                                  \
  }
// The compiler's.
#define KEEL_HIP_BUILTIN(name)           \
  KEEL_HIP_MATH float name##f(float x) { \
    return __builtin_##name##f(x);       \
  }                                      \
  KEEL_HIP_MATH double name(double x) {  \
    return __builtin_##name(x);          \
  }
KEEL_HIP_LIBRARY_1(exp)
KEEL_HIP_LIBRARY_1(exp2)
KEEL_HIP_LIBRARY_1(expm1)
KEEL_HIP_LIBRARY_1(log)
KEEL_HIP_LIBRARY_1(log2)
KEEL_HIP_LIBRARY_1(log1p)
KEEL_HIP_LIBRARY_1(sqrt)
KEEL_HIP_LIBRARY_1(sin)
KEEL_HIP_LIBRARY_1(cos)
KEEL_HIP_LIBRARY_1(tanh)
KEEL_HIP_LIBRARY_1(erf)
KEEL_HIP_LIBRARY_1(erfc)
KEEL_HIP_LIBRARY_2(pow)
KEEL_HIP_LIBRARY_2(fmod)
KEEL_HIP_LIBRARY_2(atan2)
KEEL_HIP_BUILTIN(fabs)
KEEL_HIP_BUILTIN(floor)
KEEL_HIP_BUILTIN(ceil)
KEEL_HIP_BUILTIN(rint)
KEEL_HIP_BUILTIN(trunc)
#undef KEEL_HIP_LIBRARY_1
#undef KEEL_HIP_LIBRARY_2
#undef KEEL_HIP_BUILTIN

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
