#include "core/host_registrations.h"

namespace keel {

void HostRegistrations::add(void* pointer, uint64_t size, const void* device_pointer) {
  std::lock_guard lock(mutex_);
  ranges_[reinterpret_cast<uintptr_t>(pointer)] = {size, pointer == device_pointer};
}

void HostRegistrations::remove(void* pointer) {
  std::lock_guard lock(mutex_);
  ranges_.erase(reinterpret_cast<uintptr_t>(pointer));
}

bool HostRegistrations::has_same_address(const void* pointer, uint64_t size) const {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return false;
  --range;
  const uint64_t offset = address - range->first;
  return range->second.same_address && offset < range->second.size &&
         size <= range->second.size - offset;
}

}  // namespace keel
