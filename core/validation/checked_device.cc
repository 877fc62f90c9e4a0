// SPDX-License-Identifier: Apache-2.0
// Instances and devices, checked.
#include <algorithm>
#include <keel/plugin_kit.hpp>

#include "core/validation/call.h"
#include "core/validation/tables.h"
#include "core/validation/validation.h"

namespace keel::validation {

namespace {

// A capability, and whether the plugin has the slots behind it.
struct ClaimedSlots {
  uint64_t capability;
  const char* name;
  bool (*present)(const keel_plugin& plugin);
};
#define KEEL_SLOT(table, slot) KEEL_HAS(keel_##table##_table, plugin.table, slot)
constexpr ClaimedSlots kClaimedSlots[] = {
    {KEEL_CAPABILITY_HOST_REGISTER, "KEEL_CAPABILITY_HOST_REGISTER",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(memory, host_register) && KEEL_SLOT(memory, host_unregister);
     }},
    {KEEL_CAPABILITY_HOST_ALIAS, "KEEL_CAPABILITY_HOST_ALIAS",
     [](const keel_plugin& plugin) { return KEEL_SLOT(memory, host_alias); }},
    {KEEL_CAPABILITY_EXPORT, "KEEL_CAPABILITY_EXPORT",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(memory, export_memory) && KEEL_SLOT(memory, import_memory) &&
              KEEL_SLOT(memory, close_import);
     }},
    {KEEL_CAPABILITY_PEER_COPY, "KEEL_CAPABILITY_PEER_COPY",
     [](const keel_plugin& plugin) { return KEEL_SLOT(stream, copy_peer); }},
    {KEEL_CAPABILITY_TIMING, "KEEL_CAPABILITY_TIMING",
     [](const keel_plugin& plugin) { return KEEL_SLOT(stream, event_elapsed); }},
    {KEEL_CAPABILITY_NOTIFY, "KEEL_CAPABILITY_NOTIFY",
     [](const keel_plugin& plugin) { return KEEL_SLOT(stream, event_notify); }},
    {KEEL_CAPABILITY_NATIVE_GATE, "KEEL_CAPABILITY_NATIVE_GATE",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(stream, gate_create) && KEEL_SLOT(stream, gate_destroy) &&
              KEEL_SLOT(stream, gate_open) && KEEL_SLOT(stream, stream_wait_gate);
     }},
    {KEEL_CAPABILITY_STREAM_ALLOC, "KEEL_CAPABILITY_STREAM_ALLOC",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(memory, alloc_on_stream) && KEEL_SLOT(memory, free_on_stream);
     }},
    {KEEL_CAPABILITY_KERNELS, "KEEL_CAPABILITY_KERNELS",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(kernel, load) && KEEL_SLOT(kernel, unload) && KEEL_SLOT(kernel, find) &&
              KEEL_SLOT(kernel, launch);
     }},
    {KEEL_CAPABILITY_OPS, "KEEL_CAPABILITY_OPS",
     [](const keel_plugin& plugin) { return KEEL_SLOT(op, query) && KEEL_SLOT(op, run); }},
    {KEEL_CAPABILITY_CCL, "KEEL_CAPABILITY_CCL",
     [](const keel_plugin& plugin) {
       return KEEL_SLOT(ccl, capability) && KEEL_SLOT(ccl, unique_id) &&
              KEEL_SLOT(ccl, init_rank) && KEEL_SLOT(ccl, destroy) && KEEL_SLOT(ccl, run) &&
              KEEL_SLOT(ccl, info);
     }},
    {KEEL_CAPABILITY_MEMORY_INFO, "KEEL_CAPABILITY_MEMORY_INFO",
     [](const keel_plugin& plugin) { return KEEL_SLOT(device, memory_info); }},
    {KEEL_CAPABILITY_FILL, "KEEL_CAPABILITY_FILL",
     [](const keel_plugin& plugin) { return KEEL_SLOT(stream, fill); }},
};
#undef KEEL_SLOT
constexpr uint64_t kKnownCapabilities = (uint64_t{KEEL_CAPABILITY_PAGEABLE_ASYNC} << 1) - 1;

template <size_t kSize>
void check_text(Call& call, char (&text)[kSize], const char* name) {
  if (std::memchr(text, '\0', kSize) != nullptr) return;
  call.lie("{} has no end within its {} bytes", name, kSize);
  text[kSize - 1] = '\0';
}

void check_info(Call& call, const keel_plugin& plugin, keel_device_info& info) {
  check_text(call, info.name, "out_info->name");
  check_text(call, info.architecture, "out_info->architecture");
  check_text(call, info.pci_address, "out_info->pci_address");
  check_text(call, info.driver, "out_info->driver");
  if (info.name[0] == '\0') call.lie("left out_info->name empty");
  if (info.type < KEEL_DEVICE_CPU || info.type > KEEL_DEVICE_OTHER) {
    call.lie("out_info->type {} is no type of device", info.type);
  }
  if ((info.capabilities & ~kKnownCapabilities) != 0) {
    call.lie("out_info->capabilities has unknown bits {:#x}",
             info.capabilities & ~kKnownCapabilities);
  }
  for (const ClaimedSlots& claimed : kClaimedSlots) {
    if ((info.capabilities & claimed.capability) != 0 && !claimed.present(plugin)) {
      call.lie("claims {} without the slots for it", claimed.name);
    }
  }
}

// ---- devices -------------------------------------------------------------------

keel_status device_count(keel_plugin_instance* handle, uint32_t* out_count) {
  Call call("device.count", handle, out_count);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance) || !call.check(out_count != nullptr, "out_count is NULL")) {
    return call.refused();
  }
  uint32_t count = UINT32_MAX;
  const keel_status code =
      call.answer(instance->plugin->real->device->count(instance->native, &count));
  if (code != KEEL_OK) return code;
  if (count == UINT32_MAX) return call.broken("the plugin left *out_count unset");
  std::lock_guard lock(instance->mutex);
  instance->device_count = count;
  *out_count = count;
  return code;
}

bool check_ordinal(Call& call, CheckedInstance& instance, uint32_t ordinal) {
  std::lock_guard lock(instance.mutex);
  return call.check(ordinal < instance.device_count, "ordinal is {}, there are {} devices", ordinal,
                    instance.device_count);
}

keel_status device_info(keel_plugin_instance* handle, uint32_t ordinal,
                        keel_device_info* out_info) {
  Call call("device.info", handle, ordinal, out_info);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance) || !check_ordinal(call, *instance, ordinal) ||
      !call.check(out_info != nullptr, "out_info is NULL") ||
      !call.check(out_info->header.type == KEEL_STRUCT_DEVICE_INFO &&
                      out_info->header.size >= sizeof(keel_device_info),
                  "out_info->header has size {} and type {}", out_info->header.size,
                  out_info->header.type)) {
    return call.refused();
  }
  const keel_plugin& real = *instance->plugin->real;
  Guarded<keel_device_info> info;
  info.value.header = {sizeof(info.value), KEEL_STRUCT_DEVICE_INFO, out_info->header.next};
  const keel_header header = info.value.header;
  const keel_status code = call.answer(real.device->info(instance->native, ordinal, &info.value));
  check_answer(call, info, header, "out_info");
  if (code != KEEL_OK) return code;
  info.value.header = out_info->header;
  check_info(call, real, info.value);
  *out_info = info.value;
  std::lock_guard lock(instance->mutex);
  instance->infos[ordinal] = info.value;
  return code;
}

// Returns the plugin's info of a device, also if core has not asked for it.
keel_status remember_info(CheckedInstance& instance, keel_plugin_instance* handle, uint32_t ordinal,
                          keel_device_info* out_info) {
  {
    std::lock_guard lock(instance.mutex);
    const auto known = instance.infos.find(ordinal);
    if (known != instance.infos.end()) {
      *out_info = known->second;
      return KEEL_OK;
    }
  }
  *out_info = {};
  out_info->header = {sizeof(*out_info), KEEL_STRUCT_DEVICE_INFO, nullptr};
  return device_info(handle, ordinal, out_info);
}

keel_status device_open(keel_plugin_instance* handle, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  Call call("device.open", handle, ordinal, out_device);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance) || !check_ordinal(call, *instance, ordinal) ||
      !call.check(out_device != nullptr, "out_device is NULL")) {
    return call.refused();
  }
  auto device = std::make_shared<CheckedDevice>();
  keel_status code = remember_info(*instance, handle, ordinal, &device->info);
  if (code != KEEL_OK) return code;
  {
    std::lock_guard lock(instance->mutex);
    if (!call.check_state(instance->open.insert(ordinal).second, "device {} is open already",
                          ordinal)) {
      return call.refused();
    }
  }
  keel_plugin_device* native = nullptr;
  code = call.answer(instance->plugin->real->device->open(instance->native, ordinal, &native));
  if (code == KEEL_OK && native == nullptr) {
    code = call.broken("the plugin left *out_device unset");
  }
  if (code != KEEL_OK) {
    std::lock_guard lock(instance->mutex);
    instance->open.erase(ordinal);
    return code;
  }
  device->instance = instance;
  device->native = native;
  device->ordinal = ordinal;
  device->origin = capture_origin();
  device->name = fmt::format("{}:{}", instance->plugin->name, ordinal);
  *out_device = registry<keel_plugin_device>().insert(std::move(device));
  return KEEL_OK;
}

// Fails |call| for each object of |Handle| left on |device|.
template <typename Handle>
bool check_none_left(Call& call, const CheckedDevice& device) {
  bool none = true;
  for (const auto& [handle, object] : registry<Handle>().all()) {
    if (object->device.get() != &device) continue;
    none = call.check_state(false, "a {} is left, made at {}", ObjectOf<Handle>::name,
                            describe(object->origin));
  }
  return none;
}

void device_close(keel_plugin_device* handle) {
  Call call("device.close", handle);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device)) return;
  // Every kind is checked, so that each remaining object is named.
  bool empty = check_none_left<keel_plugin_stream>(call, *device);
  empty &= check_none_left<keel_plugin_event>(call, *device);
  empty &= check_none_left<keel_plugin_gate>(call, *device);
  empty &= check_none_left<keel_plugin_module>(call, *device);
  empty &= check_none_left<keel_plugin_import>(call, *device);
  empty &= check_none_left<keel_plugin_comm>(call, *device);
  std::vector<std::shared_ptr<Block>> blocks;
  {
    std::lock_guard lock(device->mutex);
    blocks = device->allocations.all();
  }
  for (const auto& block : blocks) {
    if (block->source == Source::kImport) continue;  // named with its import
    empty = call.check_state(false, "an allocation of {} bytes at {} is left, made at {}",
                             block->size, block->pointer(), describe(block->origin));
  }
  for (const auto& [token, notification] : registry<void>().all()) {
    if (notification->event->device != device) continue;
    registry<void>().remove(token);
    if (!device->lost) call.lie("the plugin never made the callback of an event_notify");
  }
  if (!empty) return;  // the plugin may rely on it; its device stays open
  registry<keel_plugin_device>().remove(handle);
  device->real().device->close(device->native);
  std::lock_guard lock(device->instance->mutex);
  device->instance->open.erase(device->ordinal);
}

keel_status memory_info(keel_plugin_device* handle, uint64_t* out_free, uint64_t* out_total) {
  Call call("device.memory_info", handle, out_free, out_total);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_free != nullptr, "out_free is NULL") ||
      !call.check(out_total != nullptr, "out_total is NULL")) {
    return call.refused();
  }
  uint64_t free = UINT64_MAX;
  uint64_t total = UINT64_MAX;
  const keel_status code =
      call.answer(device->real().device->memory_info(device->native, &free, &total));
  if (code != KEEL_OK) return code;
  if (free == UINT64_MAX) return call.broken("the plugin left *out_free unset");
  if (total == UINT64_MAX) return call.broken("the plugin left *out_total unset");
  if (free > total) call.lie("{} bytes are free of {} in all", free, total);
  *out_free = free;
  *out_total = total;
  return code;
}

keel_status health(keel_plugin_device* handle, keel_device_health* out_health) {
  Call call("device.health", handle, out_health);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_health != nullptr, "out_health is NULL") ||
      !call.check(out_health->header.type == KEEL_STRUCT_DEVICE_HEALTH &&
                      out_health->header.size >= sizeof(keel_device_health),
                  "out_health->header has size {} and type {}", out_health->header.size,
                  out_health->header.type)) {
    return call.refused();
  }
  Guarded<keel_device_health> answer;
  answer.value.header = {sizeof(answer.value), KEEL_STRUCT_DEVICE_HEALTH, nullptr};
  const keel_header header = answer.value.header;
  const keel_status code =
      call.answer(device->real().device->health(device->native, &answer.value));
  check_answer(call, answer, header, "out_health");
  if (code != KEEL_OK) return code;
  check_text(call, answer.value.text, "out_health->text");
  answer.value.header = out_health->header;
  *out_health = answer.value;
  return code;
}

keel_status native_handle(keel_plugin_device* handle, uint32_t which, void** out_handle) {
  Call call("device.native_handle", handle, which, out_handle);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_handle != nullptr, "out_handle is NULL")) {
    return call.refused();
  }
  return call.answer(device->real().device->native_handle(device->native, which, out_handle));
}

}  // namespace

// ---- instances ------------------------------------------------------------------

keel_status create_checked_instance(const CheckedPlugin& plugin,
                                    const keel_instance_settings* settings,
                                    keel_plugin_instance** out_instance) {
  Call call("create_instance", plugin, settings, out_instance);
  if (!call.check(settings != nullptr, "settings is NULL") ||
      !call.check(out_instance != nullptr, "out_instance is NULL") ||
      !call.check(settings->header.type == KEEL_STRUCT_INSTANCE_SETTINGS,
                  "settings->header has type {}", settings->header.type) ||
      !call.check(
          settings->count == 0 || (settings->keys != nullptr && settings->values != nullptr),
          "settings->count is {}, but keys or values is NULL", settings->count)) {
    return call.refused();
  }
  // NULL is a valid instance for a plugin without state.
  keel_plugin_instance* const unset = reinterpret_cast<keel_plugin_instance*>(next_handle());
  keel_plugin_instance* native = unset;
  const keel_status code = call.answer(plugin.real->create_instance(settings, &native));
  if (code != KEEL_OK) return code;
  if (native == unset) return call.broken("{} left *out_instance unset", plugin.name);
  auto instance = std::make_shared<CheckedInstance>();
  instance->plugin = &plugin;
  instance->native = native;
  instance->origin = capture_origin();
  *out_instance = registry<keel_plugin_instance>().insert(std::move(instance));
  return code;
}

void destroy_checked_instance(keel_plugin_instance* handle) {
  Call call("destroy_instance", handle);
  std::shared_ptr<CheckedInstance> instance;
  if (!call.find(handle, &instance)) return;
  {
    std::lock_guard lock(instance->mutex);
    if (!call.check_state(instance->open.empty(), "{} of its devices are open",
                          instance->open.size())) {
      return;
    }
  }
  registry<keel_plugin_instance>().remove(handle);
  if (instance->native != nullptr) instance->plugin->real->destroy_instance(instance->native);
}

keel_device_table checked_device_table(const keel_device_table* real) {
  keel_device_table table = {};
  table.header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE);
  KEEL_CHECKED_SLOT(keel_device_table, count, device_count)
  KEEL_CHECKED_SLOT(keel_device_table, info, device_info)
  KEEL_CHECKED_SLOT(keel_device_table, open, device_open)
  KEEL_CHECKED_SLOT(keel_device_table, close, device_close)
  KEEL_CHECKED_SLOT(keel_device_table, memory_info, memory_info)
  KEEL_CHECKED_SLOT(keel_device_table, health, health)
  KEEL_CHECKED_SLOT(keel_device_table, native_handle, native_handle)
  return table;
}

}  // namespace keel::validation
