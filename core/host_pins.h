// SPDX-License-Identifier: Apache-2.0
// Memory of one device that the host reaches, pinned for another device.
#ifndef KEEL_CORE_HOST_PINS_H_
#define KEEL_CORE_HOST_PINS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

#include "core/memory_block.h"

namespace keel {

class Device;

// Which segments are pinned for which devices, so that these copy to and from them by themselves.
// Pinning takes about as long as threads of the host take to work through the memory, so a segment
// is pinned once they have done so with as many bytes as it has. It stays pinned until it goes back
// to its plugin, the device closes, or the caller registers some of it with the device. One that
// the device refuses is not tried again. Thread-safe.
class HostPins {
 public:
  static HostPins& get();

  // Whether |segment| is pinned for |device|, and stays so until it is let go of as often. |bytes|
  // of it are to be copied, by threads where it is not.
  bool hold(Device& device, const MemorySegment& segment, uint64_t bytes);
  void let_go(const Device& device, const char* host);

  // The segment that the host has at |host| goes back to its plugin.
  void forget(const char* host) {
    if (any_.load(std::memory_order_acquire)) forget_now(host);
  }
  // The caller is about to register [pointer, pointer + size) with |device|, which takes no byte
  // twice: what is pinned there, for it or another of its plugin, and not held, is given up for
  // good.
  void yield(Device& device, const void* pointer, uint64_t size) {
    if (any_.load(std::memory_order_acquire)) yield_now(device, pointer, size);
  }
  // |device| closes.
  void release(Device& device);

 private:
  enum class State : uint8_t { kNotYet, kPinned, kRefused };
  struct Pin {
    uint64_t size = 0;
    uint64_t passed = 0;  // bytes that threads have worked through
    uint32_t holders = 0;
    State state = State::kNotYet;
  };
  struct Key {
    const char* host;  // where the host has the segment
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

// Host memory that a device copies to and from by itself, for as long as this lives.
class HostHold {
 public:
  HostHold() = default;
  ~HostHold();
  HostHold(const HostHold&) = delete;
  HostHold& operator=(const HostHold&) = delete;

  // Whether |device| so reaches |size| bytes that the host has at |host|, and |owner|, whose
  // memory they are, at |pointer|: they are pinned memory of |device|, or registered with it by the
  // caller, or of a segment that is pinned for it. Once for each of these objects.
  bool take(Device& device, Device& owner, const void* pointer, const char* host, uint64_t size);

 private:
  Device* device_ = nullptr;
  const char* host_ = nullptr;
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_PINS_H_
