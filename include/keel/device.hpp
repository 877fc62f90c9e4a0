// SPDX-License-Identifier: Apache-2.0
// Devices. Included by keel.hpp, which states the rules for all of its parts.
#ifndef KEEL_DEVICE_HPP_
#define KEEL_DEVICE_HPP_

#include <keel/keel.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <keel/error.hpp>
#include <optional>
#include <string>
#include <vector>

namespace keel {
inline namespace v0 {

struct MemoryUse {
  uint64_t free;   // bytes
  uint64_t total;  // bytes
};

// A device, by value; a default-constructed Device is the host. Analogue: torch::Device.
class Device {
 public:
  Device() = default;
  explicit Device(keel_device handle) : handle_(handle) {}

  // Finds "backend:ordinal", or by "backend" its first device; KEEL_NOT_FOUND lists the devices.
  static Device find(const std::string& name) {
    Device found;
    check(keel_device_find(name.c_str(), &found.handle_));
    return found;
  }
  // Opens and returns all devices.
  static std::vector<Device> all() {
    uint32_t count = 0;
    check(keel_device_count(&count));
    std::vector<Device> devices(count);
    for (uint32_t index = 0; index < count; ++index) {
      check(keel_device_get(index, &devices[index].handle_));
    }
    return devices;
  }

  keel_device get() const { return handle_; }
  std::string name() const {
    std::array<char, 80> text{};
    check(keel_device_name(handle_, text.data(), text.size()));
    return text.data();
  }
  keel_device_info info() const {
    keel_device_info info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
    check(keel_device_info_get(handle_, &info));
    return info;
  }
  // nullopt where the plugin cannot tell.
  std::optional<MemoryUse> memory_use() const {
    MemoryUse use{};
    const keel_status status = keel_device_memory_info(handle_, &use.free, &use.total);
    if (status == KEEL_UNSUPPORTED) return std::nullopt;
    check(status);
    return use;
  }
  // nullopt where the plugin cannot tell.
  std::optional<keel_device_health> health() const {
    keel_device_health health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
    const keel_status status = keel_device_health_get(handle_, &health);
    if (status == KEEL_UNSUPPORTED) return std::nullopt;
    check(status);
    return health;
  }
  // Memory that Keel has allocated on the device, and caches.
  keel_memory_stats memory_stats() const {
    keel_memory_stats stats = KEEL_STRUCT_INIT(keel_memory_stats, KEEL_STRUCT_MEMORY_STATS);
    check(keel_memory_stats_get(handle_, &stats));
    return stats;
  }
  void reset_memory_peaks() const { check(keel_memory_stats_reset_peaks(handle_)); }
  // Describes every segment and block as JSON text.
  std::string memory_snapshot() const {
    return api_detail::read_text(
        [this](char* text, uint64_t* size) { return keel_memory_snapshot(handle_, text, size); });
  }
  // Returns free, idle memory to the device.
  void trim_memory() const { check(keel_memory_trim(handle_)); }
  // A native handle; |which|: 0 for the main handle (CUcontext).
  void* native_handle(uint32_t which = 0) const {
    void* handle = nullptr;
    check(keel_device_native_handle(handle_, which, &handle));
    return handle;
  }
  // Number of the physical chip behind the device.
  uint32_t chip() const {
    uint32_t number = 0;
    check(keel_device_chip(handle_, &number));
    return number;
  }
  void synchronize(std::chrono::nanoseconds timeout = kDefaultTimeout) const {
    check(keel_device_synchronize(handle_, timeout.count()));
  }

  friend bool operator==(const Device& a, const Device& b) { return a.handle_.id == b.handle_.id; }

 private:
  keel_device handle_{};
};

}  // namespace v0
}  // namespace keel

#endif  // KEEL_DEVICE_HPP_
