// SPDX-License-Identifier: Apache-2.0
// Pinned-segment cache: host-accessible memory of one device, pinned for another device.
#ifndef KEEL_CORE_PINNED_SEGMENT_CACHE_H_
#define KEEL_CORE_PINNED_SEGMENT_CACHE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "core/memory_block.h"

namespace keel {

class Device;

// Records which segments are pinned for which devices; a device copies to and from a pinned segment
// without host threads. Pinning takes about as long as host threads take to copy the segment, so a
// segment is pinned once threads have copied as many bytes as the segment has. A segment stays
// pinned until its return to the plugin, until the device closes, or until the caller registers
// part of the segment with the device. A segment refused by the device is not tried again.
// Thread-safe.
class PinnedSegmentCache {
 public:
  static PinnedSegmentCache& get();

  // Returns whether |segment| is pinned for |device|; if so, the pin is held until a matching
  // let_go(). |bytes| is the size of the caller's copy, which host threads perform if the result is
  // false.
  bool hold(Device& device, const MemorySegment& segment, uint64_t bytes);
  void let_go(const Device& device, const char* host);

  // Unpins the segment at host address |host| for all devices. Called before the segment returns to
  // its plugin.
  void forget(const char* host) {
    if (any_.load(std::memory_order_acquire)) forget_now(host);
  }
  // The caller is about to register [pointer, pointer + size) with |device|, which pins no byte
  // twice. Unpins for good every overlapping segment that is not held and is pinned for a device of
  // the same plugin.
  void yield(Device& device, const void* pointer, uint64_t size) {
    if (any_.load(std::memory_order_acquire)) yield_now(device, pointer, size);
  }
  // Unpins all segments of |device|. Called when the device closes.
  void release(Device& device);

 private:
  enum class State : uint8_t { kNotYet, kPinned, kRefused };
  struct Pin {
    uint64_t size = 0;
    uint64_t passed = 0;  // bytes that host threads have copied
    uint32_t holders = 0;
    State state = State::kNotYet;
  };
  struct Key {
    const char* host;  // host address of the segment
    Device* device;
    bool operator<(const Key& other) const {
      return std::tie(host, device) < std::tie(other.host, other.device);
    }
  };

  void forget_now(const char* host);
  void yield_now(Device& device, const void* pointer, uint64_t size);
  static void unpin(const Key& key, Pin& pin);

  std::atomic<bool> any_{false};
  std::mutex mutex_;  // held while plugins pin and unpin
  std::map<Key, Pin> pins_;
};

// While alive, keeps host memory accessible to the copies of a device.
class PinnedSegmentLease {
 public:
  PinnedSegmentLease() = default;
  ~PinnedSegmentLease();
  PinnedSegmentLease(const PinnedSegmentLease&) = delete;
  PinnedSegmentLease& operator=(const PinnedSegmentLease&) = delete;

  // Returns whether |device| can copy |size| bytes itself. The bytes are memory of |owner| at
  // |pointer|, and the host accesses them at |host|. True if the bytes are pinned memory of
  // |device|, memory that the caller registered with |device| at the same address, or part of a
  // segment that is pinned for |device|. Call once for each PinnedSegmentLease.
  bool take(Device& device, Device& owner, const void* pointer, const char* host, uint64_t size);

 private:
  Device* device_ = nullptr;
  const char* host_ = nullptr;
};

}  // namespace keel

#endif  // KEEL_CORE_PINNED_SEGMENT_CACHE_H_
