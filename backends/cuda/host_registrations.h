// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CUDA_HOST_REGISTRATIONS_H_
#define KEEL_BACKENDS_CUDA_HOST_REGISTRATIONS_H_

#include <cstdint>
#include <map>
#include <mutex>

namespace keel::cuda {

// Host memory that is registered with a driver. The driver knows a range once for all its
// devices, Keel registers it for each: the first to come registers it, the last to go takes it
// back. Thread-safe.
class HostRegistrations {
 public:
  // |enter| and |leave| call the driver, and give what it says; they are called with a lock
  // held that keeps the order of those calls.
  template <typename Enter>
  auto add(void* pointer, uint64_t size, Enter&& enter) {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(pointer);
    if (found != ranges_.end() && found->second.size == size) {
      ++found->second.holders;
      return decltype(enter()){};
    }
    // One that overlaps another is the driver's to refuse.
    const auto result = enter();
    if (result == decltype(enter()){}) ranges_.insert_or_assign(pointer, Range{size, 1});
    return result;
  }

  template <typename Leave>
  auto remove(void* pointer, Leave&& leave) {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(pointer);
    if (found != ranges_.end() && --found->second.holders != 0) return decltype(leave()){};
    if (found != ranges_.end()) ranges_.erase(found);
    return leave();
  }

 private:
  struct Range {
    uint64_t size;
    uint32_t holders;
  };
  std::mutex mutex_;
  std::map<void*, Range> ranges_;
};

}  // namespace keel::cuda

#endif  // KEEL_BACKENDS_CUDA_HOST_REGISTRATIONS_H_
