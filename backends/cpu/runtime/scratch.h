// SPDX-License-Identifier: Apache-2.0
// Working memory of kernels, kept from one call to the next: a call allocates only to enlarge the
// memory, and threads with a small stack can run the kernels.
#ifndef KEEL_BACKENDS_CPU_RUNTIME_SCRATCH_H_
#define KEEL_BACKENDS_CPU_RUNTIME_SCRATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace keel::cpu {

class Scratch {
 public:
  static constexpr size_t kAlignment = 64;  // a cache line

  // Returns at least |bytes| bytes; the previous contents are lost. Throws std::bad_alloc.
  void* room(size_t bytes) {
    if (bytes > size_) {
      memory_.reset();  // the contents need no copy
      size_ = 0;
      memory_.reset(::operator new (bytes, std::align_val_t{kAlignment}));
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(void* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };
  std::unique_ptr<void, Free> memory_;
  size_t size_ = 0;
};

// The calling thread's scratch memory, for one kernel at a time.
inline Scratch& thread_scratch() {
  thread_local Scratch scratch;
  return scratch;
}

// Arrays of |counts| floats in the thread's scratch memory, each aligned to a cache line; the next
// call returns the same memory. Throws std::bad_alloc.
template <size_t kArrays>
std::array<float*, kArrays> thread_floats(const int64_t (&counts)[kArrays]) {
  constexpr size_t kLine = Scratch::kAlignment / sizeof(float);
  std::array<size_t, kArrays + 1> at = {};
  for (size_t i = 0; i < kArrays; ++i) {
    at[i + 1] = at[i] + (static_cast<size_t>(counts[i]) + kLine - 1) / kLine * kLine;
  }
  auto* const room = static_cast<float*>(thread_scratch().room(at[kArrays] * sizeof(float)));
  std::array<float*, kArrays> arrays = {};
  for (size_t i = 0; i < kArrays; ++i) arrays[i] = room + at[i];
  return arrays;
}

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_SCRATCH_H_
