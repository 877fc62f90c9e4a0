// SPDX-License-Identifier: Apache-2.0
// Exports a copy of the memory: neither side sees later writes of the other.
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "conformance/faulty/plain_plugin.h"

namespace {

struct Import {
  void* pointer;
  uint64_t size;
};

keel_status info(keel_plugin_instance* instance, uint32_t ordinal, keel_device_info* out_info) {
  const keel_status status = keel::faulty::plain_tables().device.info(instance, ordinal, out_info);
  out_info->capabilities |= KEEL_CAPABILITY_EXPORT;
  return status;
}

keel_status export_memory(keel_plugin_device*, void* pointer, uint64_t size, keel_export_kind kind,
                          int64_t, keel_memory_export* out_export) {
  if (kind != KEEL_EXPORT_MEMFD) return KEEL_UNSUPPORTED;
  const int fd = memfd_create("export_copy", MFD_CLOEXEC);
  if (fd < 0) return KEEL_UNAVAILABLE;
  if (write(fd, pointer, size) != static_cast<ssize_t>(size)) {
    close(fd);
    return KEEL_UNAVAILABLE;
  }
  out_export->kind = kind;
  out_export->fd = fd;
  out_export->offset = 0;
  out_export->bytes_size = 0;
  out_export->object_size = size;
  return KEEL_OK;
}

keel_status import_memory(keel_plugin_device*, const keel_memory_export* exported,
                          void** out_pointer, keel_plugin_import** out_import) {
  void* const pointer =
      mmap(nullptr, exported->object_size, PROT_READ | PROT_WRITE, MAP_SHARED, exported->fd, 0);
  if (pointer == MAP_FAILED) return KEEL_INVALID_ARGUMENT;
  *out_pointer = pointer;
  *out_import = reinterpret_cast<keel_plugin_import*>(new Import{pointer, exported->object_size});
  return KEEL_OK;
}

keel_status close_import(keel_plugin_device*, keel_plugin_import* import) {
  const std::unique_ptr<Import> closed(reinterpret_cast<Import*>(import));
  munmap(closed->pointer, closed->size);
  return KEEL_OK;
}

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.device.info = info;
  tables.memory.export_memory = export_memory;
  tables.memory.import_memory = import_memory;
  tables.memory.close_import = close_import;
  return keel::faulty::answer_query("faulty_export_copy", tables, host, out_plugin);
}
