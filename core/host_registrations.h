// SPDX-License-Identifier: Apache-2.0
// Memory of the caller pinned for a device.
#ifndef KEEL_CORE_HOST_REGISTRATIONS_H_
#define KEEL_CORE_HOST_REGISTRATIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "core/status.h"

namespace keel {

// The ranges passed to keel_host_register and not yet to keel_host_unregister. Ranges may nest,
// overlap, repeat and adjoin: the plugin pins each byte once, for as long as any registration
// covers the byte. Thread-safe.
class HostRegistrations {
 public:
  // Pins |size| bytes with the plugin; |*out_device_pointer|: the device's address, NULL if none.
  using Pin = std::function<Status(void* pointer, uint64_t size, void** out_device_pointer)>;
  using Unpin = std::function<Status(void* pointer)>;
  // Fails if the host memory [begin, end) is in use.
  using CheckUnused = std::function<Status(uintptr_t begin, uintptr_t end)>;

  // Registers a range, and pins the parts that no earlier registration covers. On a failure of
  // |pin| nothing is registered.
  Status add(void* pointer, uint64_t size, const Pin& pin, const Unpin& unpin);
  // Takes back the latest registration that begins at |pointer|; KEEL_INVALID_ARGUMENT if none
  // does. A failure of |check|, called for the memory that no other registration covers, changes
  // nothing. Returns the first failure of |unpin|; the registration is gone all the same.
  Status remove(void* pointer, const Unpin& unpin, const CheckUnused& check = nullptr);
  // Registers all memory of the process, which has the same addresses on the device; counted.
  // remove_all() takes one such registration back, like remove().
  void add_all();
  Status remove_all(const CheckUnused& check);
  bool has_all() const { return all_.load(std::memory_order_acquire) != 0; }
  // Returns whether [pointer, pointer + size) lies in registered memory with the same address on
  // the device, as on CPU devices; the range may then be passed in place of device memory, also
  // across adjacent registrations. Each thread caches the last two matching ranges, so that
  // operations on them take no lock. With all memory registered, other ranges are asked of the
  // kernel: false for memory that is not mapped.
  bool has_same_address(const void* pointer, uint64_t size) const;
  // Returns the state() for which a property of the range may be cached: one that never comes again
  // for a range that only add_all() has registered.
  uint64_t state_of(const void* pointer, uint64_t size) const;
  // Changes with every registration and unregistration.
  uint64_t state() const { return state_.load(std::memory_order_acquire); }

 private:
  struct Range {
    uintptr_t end;
    uint32_t registrations;     // that overlap the range
    bool same_address = false;  // of pinned ranges
  };
  using Ranges = std::map<uintptr_t, Range>;  // by begin; disjoint

  bool is_covered(const void* pointer, uint64_t size) const;
  // Makes a range of each part of [begin, end) that |ranges| does not cover.
  static Ranges gaps(const Ranges& ranges, uintptr_t begin, uintptr_t end);
  // Splits the covered range around |at|, so that one begins there. With |mutex_| held.
  void split(uintptr_t at);
  void change();  // with |mutex_| held
  // Calls |check| for the memory covered by the latest registration at |begin| alone.
  Status check_last(uintptr_t begin, const CheckUnused& check) const;

  std::atomic<uint32_t> all_{0};
  std::mutex changes_;  // serialises add() and remove(); held while the plugin pins and unpins
  mutable std::mutex mutex_;                           // a leaf: protects all below
  std::multimap<uintptr_t, uintptr_t> registrations_;  // begin, end
  Ranges covered_;                                     // split where a registration begins or ends
  Ranges pinned_;  // each by one call of the plugin; may outlive the registration that caused it
  // Unique among the states of all devices; 0 if nothing was ever registered.
  std::atomic<uint64_t> state_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_REGISTRATIONS_H_
