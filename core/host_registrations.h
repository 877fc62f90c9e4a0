// SPDX-License-Identifier: Apache-2.0
// Memory of the caller pinned for a device.
#ifndef KEEL_CORE_HOST_REGISTRATIONS_H_
#define KEEL_CORE_HOST_REGISTRATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace keel {

// The ranges passed to keel_host_register and not yet to keel_host_unregister. Thread-safe.
class HostRegistrations {
 public:
  // |device_pointer|: the device's address of |pointer|; NULL if the device has none.
  void add(void* pointer, uint64_t size, const void* device_pointer);
  void remove(void* pointer);
  // Returns whether [pointer, pointer + size) lies in registered memory with the same address on
  // the device, as on CPU devices; the range may then be passed in place of device memory. Each
  // thread caches the last two matching ranges, so that operations on them take no lock.
  bool has_same_address(const void* pointer, uint64_t size) const;
  // Changes with every registration and unregistration.
  uint64_t state() const { return state_.load(std::memory_order_acquire); }

 private:
  struct Range {
    uint64_t size;
    bool same_address;
  };

  void change();  // with |mutex_| held

  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by start address
  // Unique among the states of all devices; 0 if nothing was ever registered.
  std::atomic<uint64_t> state_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_REGISTRATIONS_H_
