// SPDX-License-Identifier: Apache-2.0
#include "core/pinned_segment_cache.h"

#include "core/device.h"
#include "core/log.h"

namespace keel {

namespace {

bool can_register(const Device& device) {
  const keel_memory_table* table = device.memory_table();
  return device.has(KEEL_CAPABILITY_HOST_REGISTER) &&
         KEEL_HAS(keel_memory_table, table, host_register) &&
         KEEL_HAS(keel_memory_table, table, host_unregister);
}

}  // namespace

PinnedSegmentCache& PinnedSegmentCache::get() {
  static PinnedSegmentCache& instance = *new PinnedSegmentCache;
  return instance;
}

bool PinnedSegmentCache::hold(Device& device, const MemorySegment& segment, uint64_t bytes) {
  if (segment.host_alias == nullptr || !can_register(device)) return false;
  std::lock_guard lock(mutex_);
  Pin& pin = pins_[{segment.host_alias, &device}];
  any_.store(true, std::memory_order_release);
  if (pin.state == State::kNotYet) {
    pin.size = segment.size;
    if (pin.passed < segment.size) {
      pin.passed += bytes;
      return false;
    }
    void* address = nullptr;
    const Status pinned =
        device.check(device.memory_table()->host_register(device.native(), segment.host_alias,
                                                          segment.size, &address),
                     "memory.host_register");
    pin.state = pinned.ok() ? State::kPinned : State::kRefused;
    if (!pinned.ok()) {
      log(KEEL_LOG_INFO, "{} bytes of host memory stay as they are: {}", segment.size,
          pinned.text());
    }
  }
  if (pin.state != State::kPinned) return false;
  ++pin.holders;
  return true;
}

void PinnedSegmentCache::let_go(const Device& device, const char* host) {
  std::lock_guard lock(mutex_);
  const auto found = pins_.find({host, const_cast<Device*>(&device)});
  if (found != pins_.end() && found->second.holders != 0) --found->second.holders;
}

void PinnedSegmentCache::unpin(const Key& key, Pin& pin) {
  if (pin.state != State::kPinned) return;
  pin.state = State::kRefused;
  Device& device = *key.device;
  const keel_memory_table* table = device.memory_table();
  // The result is ignored: a lost device has no pinned memory left to unpin.
  (void)device.check(table->host_unregister(device.native(), const_cast<char*>(key.host)),
                     "memory.host_unregister");
}

void PinnedSegmentCache::forget_now(const char* host) {
  std::lock_guard lock(mutex_);
  for (auto pin = pins_.lower_bound({host, nullptr}); pin != pins_.end() && pin->first.host == host;
       pin = pins_.erase(pin)) {
    unpin(pin->first, pin->second);
  }
}

void PinnedSegmentCache::yield_now(Device& device, const void* pointer, uint64_t size) {
  const auto* const begin = static_cast<const char*>(pointer);
  std::lock_guard lock(mutex_);
  for (auto& [key, pin] : pins_) {
    const bool overlaps = key.host < begin + size && begin < key.host + pin.size;
    // Memory registered with one device may be registered for all devices of its plugin.
    const bool is_one_plugin = &key.device->backend() == &device.backend();
    if (is_one_plugin && overlaps && pin.holders == 0) unpin(key, pin);
  }
}

void PinnedSegmentCache::release(Device& device) {
  std::lock_guard lock(mutex_);
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    if (pin->first.device != &device) {
      ++pin;
      continue;
    }
    unpin(pin->first, pin->second);
    pin = pins_.erase(pin);
  }
}

PinnedSegmentLease::~PinnedSegmentLease() {
  if (device_ != nullptr) PinnedSegmentCache::get().let_go(*device_, host_);
}

bool PinnedSegmentLease::take(Device& device, Device& owner, const void* pointer, const char* host,
                              uint64_t size) {
  Allocation allocation;
  if (device.memory().find(host, &allocation) && allocation.kind == KEEL_MEMORY_PINNED) {
    return size <= allocation.size -
                       static_cast<uint64_t>(host - static_cast<const char*>(allocation.base));
  }
  if (device.host_registrations().has_same_address(host, size)) return true;
  MemorySegment segment;
  if (!owner.memory().find_segment(pointer, &segment)) return false;
  if (!PinnedSegmentCache::get().hold(device, segment, size)) return false;
  device_ = &device;
  host_ = segment.host_alias;
  return true;
}

}  // namespace keel
