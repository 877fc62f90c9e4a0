// SPDX-License-Identifier: Apache-2.0
// The primitives of kernels/gpu/simt.h for the emulated chip.
#ifndef KEEL_EMULATOR_SIMT_TARGET_SIMT_TARGET_H_
#define KEEL_EMULATOR_SIMT_TARGET_SIMT_TARGET_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <keel/float_types.hpp>

#include "emulator/simt/machine.h"
#include "emulator/simt/shared.h"
#include "kernels/gpu/types.h"

#define KEEL_SIMT_FUNCTION inline
#define KEEL_SIMT_CALLED inline

// KEEL_SIMT_FAMILY: the kernel family of this source, from the compiler's command line.
#ifndef KEEL_SIMT_FAMILY
#define KEEL_SIMT_FAMILY KEEL_SIMT_HIP_FAMILY
#endif
#define KEEL_SIMT_KERNEL(name, Arguments)                                                    \
  static void keel_##name(const Arguments& args);                                            \
  static ::keel::emulator::simt::Kernel keel_##name##_kernel = {                             \
      KEEL_SIMT_FAMILY,                                                                      \
      "keel_" #name,                                                                         \
      sizeof(Arguments),                                                                     \
      ::keel::simt::kThreads,                                                                \
      [](const void* arguments) { keel_##name(*static_cast<const Arguments*>(arguments)); }, \
      nullptr};                                                                              \
  static const ::keel::emulator::simt::Registration keel_##name##_registration(              \
      &keel_##name##_kernel);                                                                \
  static void keel_##name(const Arguments& args)

#define KEEL_SIMT_SHARED(Type, name, count)                                            \
  static thread_local ::keel::emulator::simt::SharedArray<Type, (count)> name##_cells; \
  const ::keel::emulator::simt::SharedView<Type, (count)> name(&name##_cells, #name)

namespace keel::simt {

inline Index thread_index() {
  return {emulator::simt::Machine::current().thread(), 0, 0};
}
inline Index block_index() {
  const emulator::simt::Grid block = emulator::simt::Machine::current().block();
  return {block.x, block.y, block.z};
}
inline Index grid_size() {
  const emulator::simt::Grid& grid = emulator::simt::Machine::current().grid();
  return {grid.x, grid.y, grid.z};
}

inline void barrier() {
  emulator::simt::Machine::current().barrier();
}
inline float shuffle_xor(float value, uint32_t mask) {
  auto& machine = emulator::simt::Machine::current();
  const uint32_t lane = machine.thread() % kWarp;
  const auto& given = machine.exchange(std::bit_cast<uint32_t>(value));
  return std::bit_cast<float>(static_cast<uint32_t>(given[(lane ^ mask) % kWarp]));
}
inline Votes vote(bool value) {
  const auto& given = emulator::simt::Machine::current().exchange(value ? 1 : 0);
  Votes votes = 0;
  for (uint32_t lane = 0; lane < kWarp; ++lane) votes |= static_cast<Votes>(given[lane]) << lane;
  return votes;
}

inline float to_float(bf16 value) {
  return keel::to_float(static_cast<bfloat16_t>(value.bits));
}
inline float to_float(f16 value) {
  return keel::to_float(static_cast<float16_t>(value.bits));
}
inline bf16 to_bf16(float value) {
  return {static_cast<uint16_t>(to_bfloat16(value))};
}
inline f16 to_f16(float value) {
  return {static_cast<uint16_t>(to_float16(value))};
}
inline int32_t to_i32(float value) {
  if (!(value == value)) return 0;
  if (value <= -0x1p31F) return INT32_MIN;
  return value >= 0x1p31F ? INT32_MAX : static_cast<int32_t>(value);
}

// Checks each access: an access must lie in one allocation and be aligned to its size, up to 16.
template <typename T>
class Global {
 public:
  explicit Global(uint64_t address) : address_(address) {}
  T& operator[](uint64_t i) const { return *at<T>(i); }
  template <int n>
  Lanes<Plain<T>, n> load(uint64_t i) const {
    return *at<const Lanes<Plain<T>, n>>(i);
  }
  template <int n>
  void store(uint64_t i, const Lanes<T, n>& lanes) const {
    *at<Lanes<T, n>>(i) = lanes;
  }

 private:
  template <typename Accessed>
  Accessed* at(uint64_t i) const {
    const uint64_t address = address_ + i * sizeof(T);
    const uint64_t offset = address - extent_.begin;
    if (address % alignof(Accessed) != 0 || sizeof(Accessed) > extent_.size ||
        offset > extent_.size - sizeof(Accessed)) {
      extent_ =
          emulator::simt::Machine::current().reach(address, sizeof(Accessed), alignof(Accessed));
    }
    return reinterpret_cast<Accessed*>(extent_.host + (address - extent_.begin));
  }

  uint64_t address_;
  mutable emulator::simt::Extent extent_;  // of the last access
};

}  // namespace keel::simt

#endif  // KEEL_EMULATOR_SIMT_TARGET_SIMT_TARGET_H_
