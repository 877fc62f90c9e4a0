// SPDX-License-Identifier: Apache-2.0
// Memory, checked.
#include <keel/plugin_kit.hpp>

#include "core/status.h"
#include "core/validation/call.h"
#include "core/validation/tables.h"

namespace keel::validation {

namespace {

constexpr uint32_t kKnownUsage = KEEL_USAGE_EXPORT | KEEL_USAGE_PEER;

const char* kind_name(keel_memory_kind kind) {
  constexpr const char* kNames[] = {"device", "pinned", "managed"};
  return kind <= KEEL_MEMORY_MANAGED ? kNames[kind] : "unknown";
}

// Enters a block from the plugin; KEEL_INTERNAL if core must not see the block.
keel_status add_block(Call& call, CheckedDevice& device, std::shared_ptr<Block> block) {
  if (block->base == 0) return call.broken("the plugin gave NULL for {} bytes", block->size);
  if (device.info.alignment != 0 && block->base % device.info.alignment != 0) {
    call.lie("the plugin gave {}, which is not aligned to {}", block->pointer(),
             device.info.alignment);
  }
  std::lock_guard lock(device.mutex);
  if (const auto other = device.allocations.overlapping(*block)) {
    return call.broken("the plugin gave {} + {}, which overlaps the live allocation {} + {}",
                       block->pointer(), block->size, other->pointer(), other->size);
  }
  device.allocations.insert(std::move(block));
  return KEEL_OK;
}

keel_status alloc(keel_plugin_device* handle, keel_memory_kind kind, uint64_t size, uint32_t usage,
                  void** out_pointer) {
  Call call("memory.alloc", handle, kind, size, usage, out_pointer);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(size != 0, "size is 0") ||
      !call.check(out_pointer != nullptr, "out_pointer is NULL") ||
      !call.check(kind <= KEEL_MEMORY_MANAGED, "kind {} is no kind of memory", kind) ||
      !call.check_slot(kind != KEEL_MEMORY_PINNED || device->has(KEEL_CAPABILITY_PINNED),
                       "KEEL_CAPABILITY_PINNED") ||
      !call.check_slot(kind != KEEL_MEMORY_MANAGED || device->has(KEEL_CAPABILITY_MANAGED),
                       "KEEL_CAPABILITY_MANAGED") ||
      !call.check((usage & ~kKnownUsage) == 0, "usage {:#x} is not KEEL_USAGE_*", usage)) {
    return call.refused();
  }
  void* pointer = nullptr;
  const keel_status code =
      call.answer(device->real().memory->alloc(device->native, kind, size, usage, &pointer));
  if (code != KEEL_OK) return code;
  auto block = std::make_shared<Block>();
  block->base = reinterpret_cast<uintptr_t>(pointer);
  block->size = size;
  block->kind = kind;
  block->origin = capture_origin();
  const keel_status added = add_block(call, *device, std::move(block));
  if (added == KEEL_OK) *out_pointer = pointer;
  return added;
}

// Removes and returns the allocation at |pointer|, so that the address may be reused; empty, with a
// failure, if the allocation may not be freed now.
std::shared_ptr<Block> take_block(Call& call, CheckedDevice& device, keel_memory_kind kind,
                                  void* pointer, bool is_ordered) {
  std::lock_guard lock(device.mutex);
  auto block = device.allocations.find_base(pointer, kind);
  const auto matches = [&] {
    if (block != nullptr && block->source == Source::kAlloc) return true;
    return call.check(false, "pointer {} is no live allocation of {}", pointer, device.name);
  };
  if (!matches() || !call.check(block->kind == kind, "pointer {} is {} memory, not {}", pointer,
                                kind_name(block->kind), kind_name(kind))) {
    return nullptr;
  }
  const Use* use = is_ordered || device.lost ? nullptr : block->unfinished();
  if (use != nullptr) {
    (void)call.check_state(false, "pointer {}: {} uses it, and nothing has said that it is done",
                           pointer, use->call);
    return nullptr;
  }
  device.allocations.erase(*block);
  return block;
}

void put_back(CheckedDevice& device, std::shared_ptr<Block> block) {
  std::lock_guard lock(device.mutex);
  device.allocations.insert(std::move(block));
}

keel_status free(keel_plugin_device* handle, keel_memory_kind kind, void* pointer) {
  Call call("memory.free", handle, kind, pointer);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(pointer != nullptr, "pointer is NULL") ||
      !call.check(kind <= KEEL_MEMORY_MANAGED, "kind {} is no kind of memory", kind)) {
    return call.refused();
  }
  auto block = take_block(call, *device, kind, pointer, /*is_ordered=*/false);
  if (block == nullptr) return call.refused();
  const keel_status code = call.answer(device->real().memory->free(device->native, kind, pointer));
  if (code != KEEL_OK) put_back(*device, std::move(block));
  return code;
}

keel_status alloc_on_stream(keel_plugin_stream* handle, uint64_t size, void** out_pointer) {
  Call call("memory.alloc_on_stream", handle, size, out_pointer);
  Enqueue enqueue(call, handle);
  if (!enqueue.ok() || !call.check(size != 0, "size is 0") ||
      !call.check(out_pointer != nullptr, "out_pointer is NULL") ||
      !call.check_slot(enqueue.device().has(KEEL_CAPABILITY_STREAM_ALLOC),
                       "KEEL_CAPABILITY_STREAM_ALLOC")) {
    return call.refused();
  }
  CheckedDevice& device = enqueue.device();
  void* pointer = nullptr;
  const keel_status code =
      call.answer(device.real().memory->alloc_on_stream(enqueue.native(), size, &pointer));
  if (code != KEEL_OK) return code;
  enqueue.done();
  auto block = std::make_shared<Block>();
  block->base = reinterpret_cast<uintptr_t>(pointer);
  block->size = size;
  block->origin = capture_origin();
  const keel_status added = add_block(call, device, std::move(block));
  if (added == KEEL_OK) *out_pointer = pointer;
  return added;
}

keel_status free_on_stream(keel_plugin_stream* handle, void* pointer) {
  Call call("memory.free_on_stream", handle, pointer);
  Enqueue enqueue(call, handle);
  if (!enqueue.ok() || !call.check(pointer != nullptr, "pointer is NULL") ||
      !call.check_slot(enqueue.device().has(KEEL_CAPABILITY_STREAM_ALLOC),
                       "KEEL_CAPABILITY_STREAM_ALLOC")) {
    return call.refused();
  }
  CheckedDevice& device = enqueue.device();
  auto block = take_block(call, device, KEEL_MEMORY_DEVICE, pointer, /*is_ordered=*/true);
  if (block == nullptr) return call.refused();
  const keel_status code =
      call.answer(device.real().memory->free_on_stream(enqueue.native(), pointer));
  if (code == KEEL_OK) {
    enqueue.done();
  } else {
    put_back(device, std::move(block));
  }
  return code;
}

keel_status host_register(keel_plugin_device* handle, void* pointer, uint64_t size,
                          void** out_device_pointer) {
  Call call("memory.host_register", handle, pointer, size, out_device_pointer);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(pointer != nullptr, "pointer is NULL") ||
      !call.check(size != 0, "size is 0") ||
      !call.check(out_device_pointer != nullptr, "out_device_pointer is NULL") ||
      !call.check_slot(device->has(KEEL_CAPABILITY_HOST_REGISTER),
                       "KEEL_CAPABILITY_HOST_REGISTER")) {
    return call.refused();
  }
  Block block;
  block.base = reinterpret_cast<uintptr_t>(pointer);
  block.size = size;
  block.kind = KEEL_MEMORY_PINNED;
  block.source = Source::kRegistered;
  block.origin = capture_origin();
  {
    std::lock_guard lock(device->mutex);
    if (!call.check(!device->registered.contains(block.base), "pointer {} is registered already",
                    pointer)) {
      return call.refused();
    }
  }
  void* const unset = reinterpret_cast<void*>(next_handle());  // NULL is a valid answer
  void* device_pointer = unset;
  const keel_status code = call.answer(
      device->real().memory->host_register(device->native, pointer, size, &device_pointer));
  if (code != KEEL_OK) return code;
  if (device_pointer == unset) {
    call.lie("the plugin left *out_device_pointer unset");
    device_pointer = nullptr;
  }
  *out_device_pointer = device_pointer;
  std::lock_guard lock(device->mutex);
  device->registered.emplace(block.base, std::move(block));
  return code;
}

keel_status host_unregister(keel_plugin_device* handle, void* pointer) {
  Call call("memory.host_unregister", handle, pointer);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device)) return call.refused();
  {
    std::lock_guard lock(device->mutex);
    const auto found = device->registered.find(reinterpret_cast<uintptr_t>(pointer));
    if (!call.check(found != device->registered.end(), "pointer {} is not registered", pointer)) {
      return call.refused();
    }
    const Use* use = device->lost ? nullptr : found->second.unfinished();
    if (!call.check_state(use == nullptr,
                          "pointer {}: {} uses it, and nothing has said that it is done", pointer,
                          use == nullptr ? "" : use->call)) {
      return call.refused();
    }
  }
  const keel_status code =
      call.answer(device->real().memory->host_unregister(device->native, pointer));
  if (code != KEEL_OK) return code;
  std::lock_guard lock(device->mutex);
  device->registered.erase(reinterpret_cast<uintptr_t>(pointer));
  return code;
}

keel_status host_alias(keel_plugin_device* handle, void* pointer, uint64_t size, void** out_alias) {
  Call call("memory.host_alias", handle, pointer, size, out_alias);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_alias != nullptr, "out_alias is NULL") ||
      !call.check_slot(device->has(KEEL_CAPABILITY_HOST_ALIAS), "KEEL_CAPABILITY_HOST_ALIAS") ||
      !call.check_range({*device, Space::kDevice, pointer, size, "pointer"})) {
    return call.refused();
  }
  void* alias = nullptr;
  const keel_status code =
      call.answer(device->real().memory->host_alias(device->native, pointer, size, &alias));
  if (code != KEEL_OK) return code;
  if (alias == nullptr) return call.broken("the plugin left *out_alias unset");
  *out_alias = alias;
  return code;
}

// ---- memory of other processes -----------------------------------------------------

bool is_export_kind(keel_export_kind kind) {
  return kind >= KEEL_EXPORT_MEMFD && kind <= KEEL_EXPORT_OPAQUE;
}

keel_status export_memory(keel_plugin_device* handle, void* pointer, uint64_t size,
                          keel_export_kind kind, int64_t importer_pid,
                          keel_memory_export* out_export) {
  Call call("memory.export_memory", handle, pointer, size, kind, importer_pid, out_export);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_export != nullptr, "out_export is NULL") ||
      !call.check(out_export->header.type == KEEL_STRUCT_MEMORY_EXPORT &&
                      out_export->header.size >= sizeof(keel_memory_export),
                  "out_export->header has size {} and type {}", out_export->header.size,
                  out_export->header.type) ||
      !call.check_slot(device->has(KEEL_CAPABILITY_EXPORT), "KEEL_CAPABILITY_EXPORT") ||
      !call.check(is_export_kind(kind), "kind {} is no kind of export", kind) ||
      !call.check_range({*device, Space::kDevice, pointer, size, "pointer"})) {
    return call.refused();
  }
  Guarded<keel_memory_export> exported;
  exported.value.header = {sizeof(exported.value), KEEL_STRUCT_MEMORY_EXPORT, nullptr};
  exported.value.fd = -1;
  const keel_header header = exported.value.header;
  const keel_status code = call.answer(device->real().memory->export_memory(
      device->native, pointer, size, kind, importer_pid, &exported.value));
  check_answer(call, exported, header, "out_export");
  if (code != KEEL_OK) return code;
  if (exported.value.kind != kind) {
    call.lie("the plugin exported kind {}, asked for {}", exported.value.kind, kind);
  }
  if (kind != KEEL_EXPORT_OPAQUE && exported.value.fd < 0) {
    call.lie("the plugin left out_export->fd unset");
  }
  if (exported.value.bytes_size > sizeof(exported.value.bytes)) {
    return call.broken("out_export->bytes_size is {} of {}", exported.value.bytes_size,
                       sizeof(exported.value.bytes));
  }
  exported.value.header = out_export->header;
  *out_export = exported.value;
  return code;
}

keel_status import_memory(keel_plugin_device* handle, const keel_memory_export* exported,
                          void** out_pointer, keel_plugin_import** out_import) {
  Call call("memory.import_memory", handle, exported, out_pointer, out_import);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_pointer != nullptr, "out_pointer is NULL") ||
      !call.check(out_import != nullptr, "out_import is NULL") ||
      !call.check(exported != nullptr, "exported is NULL") ||
      !call.check(exported->header.type == KEEL_STRUCT_MEMORY_EXPORT,
                  "exported->header has type {}", exported->header.type) ||
      !call.check_slot(device->has(KEEL_CAPABILITY_EXPORT), "KEEL_CAPABILITY_EXPORT") ||
      !call.check(is_export_kind(exported->kind), "exported->kind {} is no kind of export",
                  exported->kind) ||
      !call.check(exported->bytes_size <= sizeof(exported->bytes),
                  "exported->bytes_size is {} of {}", exported->bytes_size,
                  sizeof(exported->bytes))) {
    return call.refused();
  }
  void* pointer = nullptr;
  keel_plugin_import* native = nullptr;
  const keel_status code = call.answer(
      device->real().memory->import_memory(device->native, exported, &pointer, &native));
  if (code != KEEL_OK) return code;
  if (pointer == nullptr || native == nullptr) {
    return call.broken("the plugin left *{} unset",
                       pointer == nullptr ? "out_pointer" : "out_import");
  }
  auto import = std::make_shared<CheckedImport>();
  import->device = device;
  import->native = native;
  import->origin = capture_origin();
  import->block = std::make_shared<Block>();
  import->block->base = reinterpret_cast<uintptr_t>(pointer);
  import->block->size = exported->object_size - exported->offset;
  import->block->source = Source::kImport;
  import->block->origin = import->origin;
  {
    std::lock_guard lock(device->mutex);
    device->allocations.insert(import->block);
  }
  *out_pointer = pointer;
  *out_import = registry<keel_plugin_import>().insert(std::move(import));
  return code;
}

keel_status close_import(keel_plugin_device* handle, keel_plugin_import* import_handle) {
  Call call("memory.close_import", handle, import_handle);
  std::shared_ptr<CheckedDevice> device;
  std::shared_ptr<CheckedImport> import;
  if (!call.find(handle, &device) || !call.find(import_handle, &import) ||
      !call.check(import->device == device, "import is of {}", import->device->name)) {
    return call.refused();
  }
  {
    std::lock_guard lock(device->mutex);
    const Use* use = device->lost ? nullptr : import->block->unfinished();
    if (!call.check_state(use == nullptr,
                          "import: {} uses it, and nothing has said that it is done",
                          use == nullptr ? "" : use->call)) {
      return call.refused();
    }
  }
  const keel_status code =
      call.answer(device->real().memory->close_import(device->native, import->native));
  if (code != KEEL_OK) return code;
  registry<keel_plugin_import>().remove(import_handle);
  std::lock_guard lock(device->mutex);
  device->allocations.erase(*import->block);
  return code;
}

keel_status peer_enable(keel_plugin_device* handle, keel_plugin_device* peer_handle) {
  Call call("memory.peer_enable", handle, peer_handle);
  std::shared_ptr<CheckedDevice> device;
  std::shared_ptr<CheckedDevice> peer;
  if (!call.find(handle, &device) || !call.find(peer_handle, &peer, "peer") ||
      !call.check(peer != device, "peer is the device itself") ||
      !call.check(peer->instance == device->instance, "peer is of another instance, {}",
                  peer->name)) {
    return call.refused();
  }
  return call.answer(device->real().memory->peer_enable(device->native, peer->native));
}

}  // namespace

keel_memory_table checked_memory_table(const keel_memory_table* real) {
  keel_memory_table table = {};
  table.header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE);
  KEEL_CHECKED_SLOT(keel_memory_table, alloc, alloc)
  KEEL_CHECKED_SLOT(keel_memory_table, free, free)
  KEEL_CHECKED_SLOT(keel_memory_table, alloc_on_stream, alloc_on_stream)
  KEEL_CHECKED_SLOT(keel_memory_table, free_on_stream, free_on_stream)
  KEEL_CHECKED_SLOT(keel_memory_table, host_register, host_register)
  KEEL_CHECKED_SLOT(keel_memory_table, host_unregister, host_unregister)
  KEEL_CHECKED_SLOT(keel_memory_table, host_alias, host_alias)
  KEEL_CHECKED_SLOT(keel_memory_table, export_memory, export_memory)
  KEEL_CHECKED_SLOT(keel_memory_table, import_memory, import_memory)
  KEEL_CHECKED_SLOT(keel_memory_table, close_import, close_import)
  KEEL_CHECKED_SLOT(keel_memory_table, peer_enable, peer_enable)
  return table;
}

}  // namespace keel::validation
