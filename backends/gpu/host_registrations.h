// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_GPU_HOST_REGISTRATIONS_H_
#define KEEL_BACKENDS_GPU_HOST_REGISTRATIONS_H_

#include <cstdint>
#include <map>
#include <mutex>

namespace keel::gpu {

// Host memory registered with a driver. The driver registers a range once for all its devices, but
// Keel registers the range for each device: the first registration calls the driver, and the last
// removal unregisters the range. Thread-safe.
class HostRegistrations {
 public:
  // |enter| and |leave| call the driver and return its result. Both run with a lock held, which
  // orders the driver calls.
  template <typename Enter>
  auto add(void* pointer, uint64_t size, Enter&& enter) {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(pointer);
    if (found != ranges_.end() && found->second.size == size) {
      ++found->second.holders;
      return decltype(enter()){};
    }
    // The driver refuses overlapping ranges.
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

}  // namespace keel::gpu

#endif  // KEEL_BACKENDS_GPU_HOST_REGISTRATIONS_H_
