// SPDX-License-Identifier: Apache-2.0
// The primitives of simt.h for HIP, by the compiler's builtins and the device libraries: no header
// of HIP is needed.
#ifndef KEEL_KERNELS_GPU_HIP_SIMT_TARGET_H_
#define KEEL_KERNELS_GPU_HIP_SIMT_TARGET_H_

#include <cstdint>

// 64 for gfx9, 32 for gfx10 and later.
#define KEEL_SIMT_WARP __AMDGCN_WAVEFRONT_SIZE

#include "kernels/gpu/types.h"

#define KEEL_SIMT_FUNCTION __attribute__((device)) inline __attribute__((always_inline))
#define KEEL_SIMT_CALLED __attribute__((device, noinline))

#define KEEL_SIMT_KERNEL(name, Arguments)                                        \
  extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size( \
      keel::simt::kThreads, keel::simt::kThreads))) void keel_##name(const Arguments args)

#define KEEL_SIMT_SHARED(Type, name, count) static __attribute__((shared)) Type name[count]

namespace keel::simt {

KEEL_SIMT_FUNCTION Index thread_index() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
          __builtin_amdgcn_workitem_id_z()};
}
KEEL_SIMT_FUNCTION Index block_index() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
          __builtin_amdgcn_workgroup_id_z()};
}
// Grids have whole blocks, of kThreads threads in x.
KEEL_SIMT_FUNCTION Index grid_size() {
  return {__builtin_amdgcn_grid_size_x() / kThreads, __builtin_amdgcn_grid_size_y(),
          __builtin_amdgcn_grid_size_z()};
}

KEEL_SIMT_FUNCTION void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
KEEL_SIMT_FUNCTION uint32_t lane_index() {
  const uint32_t low = __builtin_amdgcn_mbcnt_lo(~0U, 0U);
  return kWarp == 32 ? low : __builtin_amdgcn_mbcnt_hi(~0U, low);
}
KEEL_SIMT_FUNCTION float shuffle_xor(float value, uint32_t mask) {
  const int from = static_cast<int>((lane_index() ^ mask) << 2);
  return __builtin_bit_cast(float,
                            __builtin_amdgcn_ds_bpermute(from, __builtin_bit_cast(int, value)));
}
// The comparison of all threads of the warp, as a bit of each.
KEEL_SIMT_FUNCTION Votes vote(bool value) {
  constexpr int kNotEqual = 33;
#if __AMDGCN_WAVEFRONT_SIZE == 64
  return __builtin_amdgcn_uicmp(static_cast<uint32_t>(value), 0U, kNotEqual);
#else
  return static_cast<Votes>(__builtin_amdgcn_uicmp(static_cast<uint32_t>(value), 0U, kNotEqual));
#endif
}

KEEL_SIMT_FUNCTION float to_float(bf16 value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
}
KEEL_SIMT_FUNCTION float to_float(f16 value) {
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
}
// To nearest even; NaN stays NaN.
KEEL_SIMT_FUNCTION bf16 to_bf16(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if (!(value == value)) return {static_cast<uint16_t>((bits >> 16) | 0x40U)};
  return {static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
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

#endif  // KEEL_KERNELS_GPU_HIP_SIMT_TARGET_H_
