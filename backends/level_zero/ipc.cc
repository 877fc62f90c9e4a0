// SPDX-License-Identifier: Apache-2.0
#include "backends/level_zero/ipc.h"

#include <cstring>
#include <keel/plugin_kit.hpp>

namespace keel::gpu {
namespace {

// The contents of keel_memory_export.bytes.
struct Handle {
  ze::IpcMemHandle native;
  // Size of the allocation, which the driver maps as a whole: core trusts the exported struct.
  uint64_t object_size;
};
static_assert(sizeof(Handle) <= sizeof(keel_memory_export::bytes));

// Reads the handle from |exported|, which another process may have corrupted.
keel_status read(const keel_memory_export& exported, Handle* out_handle) {
  if (exported.kind != KEEL_EXPORT_OPAQUE) {
    return kit::fail(KEEL_UNSUPPORTED,
                     "level_zero: exported->kind is %u: only opaque handles are imported",
                     exported.kind);
  }
  if (exported.header.size < sizeof(exported) || exported.bytes_size != sizeof(*out_handle)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "level_zero: an export of %llu bytes, not %zu",
                     static_cast<unsigned long long>(exported.bytes_size), sizeof(*out_handle));
  }
  std::memcpy(out_handle, exported.bytes, sizeof(*out_handle));
  if (exported.object_size != out_handle->object_size || exported.offset >= exported.object_size) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "level_zero: an export of byte %llu of %llu, and the handle is of %llu bytes",
                     static_cast<unsigned long long>(exported.offset),
                     static_cast<unsigned long long>(exported.object_size),
                     static_cast<unsigned long long>(out_handle->object_size));
  }
  return KEEL_OK;
}

keel_status say_missing() {
  return kit::fail(KEEL_UNSUPPORTED,
                   "level_zero: the driver does not share memory between processes");
}

}  // namespace

keel_status export_memory(Device& device, void* pointer, uint64_t size, keel_export_kind kind,
                          keel_memory_export* out_export) {
  if (!device.can_share_memory()) return say_missing();
  if (kind != KEEL_EXPORT_OPAQUE) {
    return kit::fail(KEEL_UNSUPPORTED,
                     "level_zero: memory is exported as an opaque handle only, not as %u", kind);
  }
  void* base = nullptr;
  size_t object_size = 0;
  keel_status status = device.call("zeMemGetAddressRange", [&](const ze::Functions& ze) {
    return ze.MemGetAddressRange(device.context(), pointer, &base, &object_size);
  });
  if (status == KEEL_DEVICE_LOST) return status;
  const auto offset =
      static_cast<uint64_t>(static_cast<const char*>(pointer) - static_cast<const char*>(base));
  if (status != KEEL_OK || base == nullptr || offset > object_size || size > object_size - offset) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "level_zero: %llu bytes at %p are no memory of this device",
                     static_cast<unsigned long long>(size), pointer);
  }
  Handle handle = {};
  handle.object_size = object_size;
  status = device.call("zeMemGetIpcHandle", [&](const ze::Functions& ze) {
    return ze.MemGetIpcHandle(device.context(), base, &handle.native);
  });
  if (status != KEEL_OK) return status;
  out_export->kind = KEEL_EXPORT_OPAQUE;
  out_export->fd = -1;
  out_export->offset = offset;
  out_export->object_size = object_size;
  out_export->bytes_size = sizeof(handle);
  std::memcpy(out_export->bytes, &handle, sizeof(handle));
  return KEEL_OK;
}

keel_status Import::open(Device& device, const keel_memory_export& exported, void** out_pointer,
                         std::unique_ptr<Import>* out_import) {
  if (!device.can_share_memory()) return say_missing();
  Handle handle = {};
  keel_status status = read(exported, &handle);
  if (status != KEEL_OK) return status;
  void* base = nullptr;
  status = device.call("zeMemOpenIpcHandle", [&](const ze::Functions& ze) {
    return ze.MemOpenIpcHandle(device.context(), device.handle(), handle.native, /*flags=*/0,
                               &base);
  });
  if (status != KEEL_OK) return status;
  out_import->reset(new Import(base));
  *out_pointer = static_cast<char*>(base) + exported.offset;
  return KEEL_OK;
}

keel_status Import::close(Device& device) const {
  return device.release("zeMemCloseIpcHandle", [&](const ze::Functions& ze) {
    return ze.MemCloseIpcHandle(device.context(), base_);
  });
}

}  // namespace keel::gpu
