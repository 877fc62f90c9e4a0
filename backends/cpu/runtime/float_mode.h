// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_FLOAT_MODE_H_
#define KEEL_BACKENDS_CPU_RUNTIME_FLOAT_MODE_H_

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace keel::cpu {

// A thread's floating-point mode: rounding, traps, and whether subnormal numbers become zero. A new
// thread inherits the mode of its creator.
class FloatMode {
 public:
  static FloatMode current() {
    FloatMode mode;
#if defined(__SSE2__)
    mode.bits_ = _mm_getcsr() & ~uint32_t{_MM_EXCEPT_MASK};
#elif defined(__aarch64__)
    asm volatile("mrs %0, fpcr" : "=r"(mode.bits_));
#endif
    return mode;
  }
  // Changes the calling thread's mode; exceptions that the thread has met stay recorded.
  void set() const {
#if defined(__SSE2__)
    _mm_setcsr(static_cast<uint32_t>(bits_) | (_mm_getcsr() & uint32_t{_MM_EXCEPT_MASK}));
#elif defined(__aarch64__)
    asm volatile("msr fpcr, %0" ::"r"(bits_));
#endif
  }
  bool operator==(const FloatMode&) const = default;

 private:
  uint64_t bits_ = 0;
};

// Sets a mode for the calling thread, and the thread's own again in the destructor. Takes some
// nanoseconds, and writes nothing where both are equal.
class FloatModeScope {
 public:
  explicit FloatModeScope(const FloatMode& mode)
      : before_(FloatMode::current()), is_changed_(mode != before_) {
    if (is_changed_) mode.set();
  }
  ~FloatModeScope() {
    if (is_changed_) before_.set();
  }
  FloatModeScope(const FloatModeScope&) = delete;
  FloatModeScope& operator=(const FloatModeScope&) = delete;

 private:
  const FloatMode before_;
  const bool is_changed_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_FLOAT_MODE_H_
