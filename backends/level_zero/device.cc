// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace keel::gpu {

bool find_queue_groups(const ze::Functions& functions, ze::Device device, QueueGroups* out_groups) {
  uint32_t count = 0;
  if (functions.DeviceGetCommandQueueGroupProperties(device, &count, nullptr) != ze::kSuccess) {
    return false;
  }
  std::vector<ze::QueueGroupProperties> groups(count);
  if (count == 0 || functions.DeviceGetCommandQueueGroupProperties(device, &count, groups.data()) !=
                        ze::kSuccess) {
    return false;
  }
  bool has_compute = false;
  for (uint32_t i = 0; i < count; ++i) {
    if (groups[i].queues == 0) continue;
    if ((groups[i].flags & ze::kQueueGroupCompute) != 0) {
      if (has_compute) continue;
      has_compute = true;
      out_groups->compute = i;
      out_groups->max_fill_pattern = groups[i].max_fill_pattern;
    } else if ((groups[i].flags & ze::kQueueGroupCopy) != 0 && !out_groups->copy) {
      out_groups->copy = i;
    }
  }
  return has_compute;
}

bool read_memory_state(const ze::Functions& functions, ze::Device device, uint64_t* out_free,
                       uint64_t* out_total, ze::Result* out_result) {
  *out_free = *out_total = 0;
  *out_result = ze::kUnsupportedFeature;
  // Without the setting a device's handle is none of system management's.
  const char* const sysman = secure_getenv("ZES_ENABLE_SYSMAN");
  if (sysman == nullptr || std::string_view(sysman) != "1") return false;
  if (functions.SysmanDeviceEnumMemoryModules == nullptr ||
      functions.SysmanMemoryGetState == nullptr) {
    return false;
  }
  uint32_t count = 0;
  *out_result = functions.SysmanDeviceEnumMemoryModules(device, &count, nullptr);
  std::vector<ze::SysmanMemory> modules(count);
  if (*out_result == ze::kSuccess && count != 0) {
    *out_result = functions.SysmanDeviceEnumMemoryModules(device, &count, modules.data());
    modules.resize(std::min<size_t>(count, modules.size()));
  }
  for (const ze::SysmanMemory module : modules) {
    if (*out_result != ze::kSuccess) return false;
    ze::SysmanMemoryState state;
    *out_result = functions.SysmanMemoryGetState(module, &state);
    *out_free += state.free_bytes;
    *out_total += state.total_bytes;
  }
  return *out_result == ze::kSuccess && *out_total != 0;
}

keel_status Device::open(const Loader& loader, uint32_t ordinal,
                         std::unique_ptr<Device>* out_device) {
  if (ordinal >= loader.gpus().size()) {
    return kit::fail(KEEL_NOT_FOUND, "level_zero: there is no device %u", ordinal);
  }
  std::unique_ptr<Device> device(new Device(loader, loader.gpus()[ordinal]));
  // Fails if the device was lost since it was counted.
  keel_status status = device->call("zeDeviceGetStatus", [&](const ze::Functions& ze) {
    return ze.DeviceGetStatus(device->handle());
  });
  if (status != KEEL_OK) return status;
  if (!find_queue_groups(loader.functions(), device->handle(), &device->groups_)) {
    return kit::fail(KEEL_UNSUPPORTED, "level_zero: device %u reports no queue for kernels",
                     ordinal);
  }
  ze::DeviceProperties properties;
  status = device->call("zeDeviceGetProperties", [&](const ze::Functions& ze) {
    return ze.DeviceGetProperties(device->handle(), &properties);
  });
  if (status != KEEL_OK) return status;
  device->timer_resolution_ = properties.timer_resolution;
  if (properties.timestamp_valid_bits != 0 && properties.timestamp_valid_bits < 64) {
    device->timestamp_mask_ = (uint64_t{1} << properties.timestamp_valid_bits) - 1;
  }
  device->events_ = std::make_unique<EventPool>(*device);
  device->kernels_ = Kernels::load(*device, properties);
  *out_device = std::move(device);
  return KEEL_OK;
}

Device::~Device() {
  if (kernels_ != nullptr) kernels_->unload(*this);
}

keel_status Device::say_lost() const {
  return kit::fail(KEEL_DEVICE_LOST, "%s",
                   text_of("level_zero: the device is lost", loss_.load()).c_str());
}

keel_status Device::check(const char* name, ze::Result result) {
  if (result == ze::kSuccess) return KEEL_OK;
  if (result == ze::kNotReady) return KEEL_NOT_READY;
  if (is_fatal(result)) {
    ze::Result none = ze::kSuccess;
    loss_.compare_exchange_strong(none, result);
  }
  return kit::fail(status_of(result), "level_zero: %s", text_of(name, result).c_str());
}

keel_status Device::look_for_loss() {
  if (is_lost()) return say_lost();
  using Clock = std::chrono::steady_clock;
  const int64_t now =
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
          .count();
  int64_t before = looked_at_ms_.load(std::memory_order_relaxed);
  if (now == before || !looked_at_ms_.compare_exchange_strong(before, now)) return KEEL_OK;
  const ze::Result result = functions().DeviceGetStatus(handle());
  return is_fatal(result) ? check("zeDeviceGetStatus", result) : keel_status{KEEL_OK};
}

keel_status Device::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  constexpr size_t kAlignment = 64;
  const ze::DeviceMemoryDesc device_desc;
  const ze::HostMemoryDesc host_desc;
  switch (kind) {
    case KEEL_MEMORY_DEVICE:
      return call("zeMemAllocDevice", [&](const ze::Functions& ze) {
        return ze.MemAllocDevice(context(), &device_desc, size, kAlignment, handle(), out_pointer);
      });
    case KEEL_MEMORY_PINNED:
      return call("zeMemAllocHost", [&](const ze::Functions& ze) {
        return ze.MemAllocHost(context(), &host_desc, size, kAlignment, out_pointer);
      });
    case KEEL_MEMORY_MANAGED:
      return call("zeMemAllocShared", [&](const ze::Functions& ze) {
        return ze.MemAllocShared(context(), &device_desc, &host_desc, size, kAlignment, handle(),
                                 out_pointer);
      });
    default:
      return kit::fail(KEEL_UNSUPPORTED, "level_zero: no memory of kind %u", kind);
  }
}

keel_status Device::free(keel_memory_kind /*kind*/, void* pointer) {
  return release("zeMemFree",
                 [&](const ze::Functions& ze) { return ze.MemFree(context(), pointer); });
}

keel_status Device::host_register(void* pointer, uint64_t size, void** out_device_pointer) {
  HostImports* const imports = loader_.host_imports(gpu_.driver);
  if (imports == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, "level_zero: the driver has no %s",
                     ze::kImportExternalPointer);
  }
  const keel_status status = call(ze::kImportExternalPointer, [&](const ze::Functions&) {
    return imports->registrations.add(pointer, size,
                                      [&] { return imports->add(gpu_.driver, pointer, size); });
  });
  if (status == KEEL_OK) *out_device_pointer = nullptr;
  return status;
}

keel_status Device::host_unregister(void* pointer) {
  HostImports* const imports = loader_.host_imports(gpu_.driver);
  if (imports == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, "level_zero: the driver has no %s",
                     ze::kReleaseImportedPointer);
  }
  return release(ze::kReleaseImportedPointer, [&](const ze::Functions&) {
    return imports->registrations.remove(pointer,
                                         [&] { return imports->remove(gpu_.driver, pointer); });
  });
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) {
  uint64_t free = 0;
  uint64_t total = 0;
  const keel_status status = call("zesMemoryGetState", [&](const ze::Functions& functions) {
    ze::Result result = ze::kSuccess;
    if (read_memory_state(functions, handle(), &free, &total, &result)) return ze::kSuccess;
    return result == ze::kSuccess ? ze::kUnsupportedFeature : result;
  });
  if (status == KEEL_OK) {
    *out_free = free;
    *out_total = total;
  }
  return status;
}

keel_status Device::peer_enable(const Device& peer) {
  uint8_t value = 0;
  const keel_status status = call("zeDeviceCanAccessPeer", [&](const ze::Functions& ze) {
    return ze.DeviceCanAccessPeer(handle(), peer.handle(), &value);
  });
  if (status != KEEL_OK) return status;
  if (value != 0 && context() == peer.context()) return KEEL_OK;  // access needs no call
  return kit::fail(KEEL_UNSUPPORTED, "level_zero: the devices cannot reach each other");
}

keel_status Device::health(keel_device_health* out_health) {
  if (!is_lost()) (void)check("zeDeviceGetStatus", functions().DeviceGetStatus(handle()));
  out_health->ok = is_lost() ? 0 : 1;
  out_health->throttled = 0;
  out_health->corrected_ecc = 0;
  out_health->uncorrected_ecc = 0;
  kit::copy_text(out_health->text,
                 is_lost() ? text_of("the device is lost", loss_.load()).c_str() : "");
  return KEEL_OK;
}

keel_status Device::native_handle(uint32_t which, void** out_handle) const {
  if (which > 1) {
    return kit::fail(KEEL_UNSUPPORTED,
                     "level_zero: no native handle %u: 0, the device, or 1, the context", which);
  }
  *out_handle = which == 0 ? static_cast<void*>(handle()) : static_cast<void*>(context());
  return KEEL_OK;
}

}  // namespace keel::gpu
