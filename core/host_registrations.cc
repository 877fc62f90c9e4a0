// SPDX-License-Identifier: Apache-2.0
#include "core/host_registrations.h"

#include "core/range_lookup_cache.h"

namespace keel {

namespace {

std::atomic<uint64_t> g_states{0};

// Ranges of the caller's memory with the same address on a device, valid while the device's
// registrations are in the remembered state.
thread_local constinit RangeLookupCache t_remembered;

bool holds(uintptr_t begin, uint64_t range, uintptr_t address, uint64_t size) {
  const uint64_t offset = address - begin;
  return offset < range && size <= range - offset;
}

}  // namespace

void HostRegistrations::change() {
  state_.store(++g_states, std::memory_order_release);
}

void HostRegistrations::add(void* pointer, uint64_t size, const void* device_pointer) {
  std::lock_guard lock(mutex_);
  ranges_[reinterpret_cast<uintptr_t>(pointer)] = {size, pointer == device_pointer};
  change();
}

void HostRegistrations::remove(void* pointer) {
  std::lock_guard lock(mutex_);
  ranges_.erase(reinterpret_cast<uintptr_t>(pointer));
  change();
}

bool HostRegistrations::has_same_address(const void* pointer, uint64_t size) const {
  const uint64_t state = this->state();
  if (state == 0) return false;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  if (t_remembered.hold(state, address, size)) return true;
  std::lock_guard lock(mutex_);
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return false;
  --range;
  if (!range->second.same_address || !holds(range->first, range->second.size, address, size)) {
    return false;
  }
  t_remembered.remember(state_.load(std::memory_order_relaxed), range->first, range->second.size);
  return true;
}

}  // namespace keel
