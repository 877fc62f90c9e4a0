// SPDX-License-Identifier: Apache-2.0
// The C functions of devices.
#include <cstring>
#include <string_view>

#include "core/api.h"

using keel::api_call;
using keel::Device;
using keel::failure;
using keel::find_device;
using keel::Ref;
using keel::Runtime;
using keel::Status;

keel_status keel_device_count(uint32_t* out_count) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_count)
    *out_count = static_cast<uint32_t>(Runtime::get().devices().size());
    return {};
  });
}

keel_status keel_device_get(uint32_t index, keel_device* out_device) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_device)
    const auto devices = Runtime::get().devices();
    if (index >= devices.size()) {
      return failure(KEEL_OUT_OF_RANGE, "index is {}, there are {} devices", index, devices.size());
    }
    KEEL_RETURN_IF_ERROR(devices[index]->open());
    *out_device = {devices[index]->handle()};
    return {};
  });
}

keel_status keel_device_find(const char* name, keel_device* out_device) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(name)
    KEEL_REQUIRE(out_device)
    const std::string_view wanted = name;
    std::string known;
    for (const auto& device : Runtime::get().devices()) {
      if (device->name() == wanted ||
          (device->ordinal() == 0 && device->backend().name() == wanted)) {
        KEEL_RETURN_IF_ERROR(device->open());
        *out_device = {device->handle()};
        return {};
      }
      known += (known.empty() ? "" : ", ") + device->name();
    }
    return failure(KEEL_NOT_FOUND, "name '{}' is no device; there are: {}", name,
                   known.empty() ? "none" : known);
  });
}

keel_status keel_device_name(keel_device device, char* out_name, uint64_t size) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_name)
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    return keel::return_text(found->name(), out_name, &size);
  });
}

keel_status keel_device_info_get(keel_device device, keel_device_info* out_info) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_info, KEEL_STRUCT_DEVICE_INFO,
                                            sizeof(keel_device_info), "out_info"));
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_header header = out_info->header;
    *out_info = found->info();
    out_info->header = header;
    return {};
  });
}

keel_status keel_device_memory_info(keel_device device, uint64_t* out_free, uint64_t* out_total) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_free)
    KEEL_REQUIRE(out_total)
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_device_table* table = found->device_table();
    if (!KEEL_HAS(keel_device_table, table, memory_info)) {
      return failure(KEEL_UNSUPPORTED, "{} cannot tell its free memory", found->name());
    }
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    KEEL_RETURN_IF_ERROR(found->check(
        table->memory_info(found->native(), &free_bytes, &total_bytes), "device.memory_info"));
    *out_free = free_bytes;
    *out_total = total_bytes;
    return {};
  });
}

keel_status keel_device_health_get(keel_device device, keel_device_health* out_health) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_health, KEEL_STRUCT_DEVICE_HEALTH,
                                            sizeof(keel_device_health), "out_health"));
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_device_table* table = found->device_table();
    keel_device_health health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
    const bool can_tell = KEEL_HAS(keel_device_table, table, health);
    Status asked;
    if (can_tell) {
      asked = found->check(table->health(found->native(), &health), "device.health");
      health.text[sizeof(health.text) - 1] = '\0';  // the plugin may not terminate it
    }
    // Keel may know of a loss that the plugin or its management library has not noticed.
    const Status alive = found->check_alive();
    if (!alive.ok()) {
      health.ok = 0;
      if (health.text[0] == '\0') std::strncpy(health.text, alive.text(), sizeof(health.text) - 1);
    } else if (!can_tell) {
      return failure(KEEL_UNSUPPORTED, "{} cannot tell its health", found->name());
    } else if (!asked.ok()) {
      return asked;
    }
    health.header = out_health->header;
    *out_health = health;
    return {};
  });
}

keel_status keel_device_native_handle(keel_device device, uint32_t which, void** out_handle) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_handle)
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_device_table* table = found->device_table();
    if (!KEEL_HAS(keel_device_table, table, native_handle)) {
      return failure(KEEL_UNSUPPORTED, "{} gives out no native handles", found->name());
    }
    void* handle = nullptr;
    KEEL_RETURN_IF_ERROR(found->check(table->native_handle(found->native(), which, &handle),
                                      "device.native_handle"));
    *out_handle = handle;
    return {};
  });
}

keel_status keel_device_synchronize(keel_device device, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::HostCallbacks::check_wait());
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    keel::Deadline deadline = keel::Deadline::after(0);
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(timeout_ns, &deadline));
    Status first;
    for (const auto& stream : Runtime::get().streams_of(*found)) {
      const Status status = stream->synchronize(deadline);
      // A stream that was destroyed, but is kept alive by an event, is not reported as a failure.
      if (status.code() == KEEL_CANCELLED && stream->is_closed()) continue;
      if (first.ok() && !stream->is_internal()) first = status;
    }
    return first;
  });
}
