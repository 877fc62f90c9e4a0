// SPDX-License-Identifier: Apache-2.0
// The caller's own memory that is pinned for a device.
#ifndef KEEL_CORE_HOST_REGISTRATIONS_H_
#define KEEL_CORE_HOST_REGISTRATIONS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

namespace keel {

// What keel_host_register was told and keel_host_unregister has not taken back. Thread-safe.
class HostRegistrations {
 public:
  // |device_pointer|: the device's address of |pointer|; NULL where it has none.
  void add(void* pointer, uint64_t size, const void* device_pointer);
  void remove(void* pointer);
  // Whether [pointer, pointer + size) lies in memory that the device knows by the host's
  // addresses, as CPU devices do: it may then stand where device memory may. A thread remembers
  // the last two ranges that did, so that an operation on them takes no lock.
  bool has_same_address(const void* pointer, uint64_t size) const;
  // Changes with every registration and its end.
  uint64_t state() const { return state_.load(std::memory_order_acquire); }

 private:
  struct Range {
    uint64_t size;
    bool same_address;
  };

  void change();  // with |mutex_| held

  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by their begin
  // What no other state of these, or of another device's, has had; 0: there were never any ranges.
  std::atomic<uint64_t> state_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_REGISTRATIONS_H_
