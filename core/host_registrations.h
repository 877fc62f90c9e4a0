// The caller's own memory that is pinned for a device.
#ifndef KEEL_CORE_HOST_REGISTRATIONS_H_
#define KEEL_CORE_HOST_REGISTRATIONS_H_

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
  // addresses, as CPU devices do: it may then stand where device memory may.
  bool has_same_address(const void* pointer, uint64_t size) const;

 private:
  struct Range {
    uint64_t size;
    bool same_address;
  };
  mutable std::mutex mutex_;
  std::map<uintptr_t, Range> ranges_;  // by their begin
};

}  // namespace keel

#endif  // KEEL_CORE_HOST_REGISTRATIONS_H_
