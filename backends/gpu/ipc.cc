// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/ipc.h"

#include <cstring>
#include <keel/plugin_kit.hpp>
#include <string>

#include "backends/gpu/result_codes.h"

namespace keel::gpu {
namespace {

// The contents of keel_memory_export.bytes.
struct Handle {
  IpcHandle native;
  // Size of the allocation, which must match the exported struct: the driver maps the actual
  // allocation, and core trusts the struct.
  uint64_t object_size;
};
static_assert(sizeof(Handle) <= sizeof(keel_memory_export::bytes));

keel_status refuse(const char* member, uint64_t value, const std::string& why) {
  return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": exported->%s is %llu: %s", member,
                   static_cast<unsigned long long>(value), why.c_str());
}

// Reads the handle from |exported|, which another process may have corrupted.
keel_status read(const keel_memory_export& exported, Handle* out_handle) {
  if (exported.header.size < sizeof(exported)) {
    return refuse("header.size", exported.header.size, "cut short");
  }
  if (exported.kind != KEEL_EXPORT_OPAQUE) {
    return kit::fail(KEEL_UNSUPPORTED,
                     KEEL_GPU ": exported->kind is %u: only opaque handles are imported",
                     exported.kind);
  }
  if (exported.bytes_size != sizeof(*out_handle)) {
    return refuse("bytes_size", exported.bytes_size,
                  "a handle has " + std::to_string(sizeof(*out_handle)) + " bytes");
  }
  std::memcpy(out_handle, exported.bytes, sizeof(*out_handle));
  if (exported.object_size != out_handle->object_size) {
    return refuse("object_size", exported.object_size,
                  "the handle is of " + std::to_string(out_handle->object_size) + " bytes");
  }
  if (exported.offset >= exported.object_size) {
    return refuse("offset", exported.offset,
                  "the memory has " + std::to_string(exported.object_size) + " bytes");
  }
  return KEEL_OK;
}

bool has_functions(const Functions& api) {
  return api.IpcGetMemHandle != nullptr && api.IpcOpenMemHandle != nullptr &&
         api.IpcCloseMemHandle != nullptr && api.MemGetAddressRange != nullptr;
}

keel_status say_missing() {
  return kit::fail(KEEL_UNSUPPORTED,
                   KEEL_GPU ": the driver does not share memory between processes");
}

}  // namespace

bool can_share_memory(const Functions& api, NativeDevice device) {
  return has_functions(api) && supports_ipc(api, device);
}

keel_status export_memory(Device& device, const void* pointer, uint64_t size, keel_export_kind kind,
                          keel_memory_export* out_export) {
  if (!has_functions(device.functions())) return say_missing();
  if (kind != KEEL_EXPORT_OPAQUE) {
    return kit::fail(KEEL_UNSUPPORTED,
                     KEEL_GPU ": memory is exported as an opaque handle only, not as %u", kind);
  }
  const auto address = reinterpret_cast<DeviceAddress>(pointer);
  DeviceAddress base = 0;
  size_t object_size = 0;
  Result found = kSuccess;
  keel_status status = device.call(Names::MemGetAddressRange, [&](const Functions& api) {
    return found = api.MemGetAddressRange(&base, &object_size, address);
  });
  if (found == kErrorNotFound || found == kErrorInvalidValue) {
    return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": %p is no memory of this device", pointer);
  }
  if (status != KEEL_OK) return status;
  if (size > object_size - (address - base)) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     KEEL_GPU ": %llu bytes at %p reach past their allocation",
                     static_cast<unsigned long long>(size), pointer);
  }
  Handle handle = {};
  handle.object_size = object_size;
  status = device.call(Names::IpcGetMemHandle, [&](const Functions& api) {
    return api.IpcGetMemHandle(&handle.native, base);
  });
  if (status != KEEL_OK) return status;
  out_export->kind = KEEL_EXPORT_OPAQUE;
  out_export->fd = -1;
  out_export->offset = address - base;
  out_export->object_size = object_size;
  out_export->bytes_size = sizeof(handle);
  std::memcpy(out_export->bytes, &handle, sizeof(handle));
  return KEEL_OK;
}

keel_status Import::open(Device& device, const keel_memory_export& exported, void** out_pointer,
                         std::unique_ptr<Import>* out_import) {
  if (!has_functions(device.functions())) return say_missing();
  Handle handle = {};
  keel_status status = read(exported, &handle);
  if (status != KEEL_OK) return status;
  std::unique_ptr<Import> import(new Import);
  DeviceAddress base = 0;
  Result opened = kSuccess;
  status = device.call(Names::IpcOpenMemHandle, [&](const Functions& api) {
    return opened = api.IpcOpenMemHandle(&base, handle.native,
                                         lazy_peer_access(device.driver().version()));
  });
  const std::string said = device.driver().text_of(Names::IpcOpenMemHandle, opened);
  switch (opened) {
    case kErrorInvalidContext:  // not this one: the context is current
      return kit::fail(KEEL_FAILED_PRECONDITION,
                       KEEL_GPU ": memory of this process itself is not imported: %s",
                       said.c_str());
    case kErrorAlreadyMapped:
      return kit::fail(KEEL_ALREADY_EXISTS, KEEL_GPU ": the memory is imported already: %s",
                       said.c_str());
    case kErrorMapFailed:
      return kit::fail(KEEL_UNAVAILABLE, KEEL_GPU ": the memory is out of reach: %s", said.c_str());
    case kErrorInvalidHandle:
    case kErrorInvalidValue:
      return kit::fail(KEEL_INVALID_ARGUMENT, KEEL_GPU ": exported->bytes are no handle: %s",
                       said.c_str());
    default:
      break;
  }
  if (status != KEEL_OK) return status;
  import->base_ = base;
  *out_pointer = reinterpret_cast<void*>(base + exported.offset);
  *out_import = std::move(import);
  return KEEL_OK;
}

keel_status Import::close(Device& device) const {
  return device.release(Names::IpcCloseMemHandle,
                        [&](const Functions& api) { return api.IpcCloseMemHandle(base_); });
}

}  // namespace keel::gpu
