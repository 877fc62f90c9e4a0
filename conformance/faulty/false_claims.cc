// SPDX-License-Identifier: Apache-2.0
// False capabilities: reports capabilities whose calls it refuses, and native gates without a slot.
#include "conformance/faulty/plain_plugin.h"

namespace {

keel_status info(keel_plugin_instance* instance, uint32_t ordinal, keel_device_info* out_info) {
  const keel_status status = keel::faulty::plain_tables().device.info(instance, ordinal, out_info);
  out_info->capabilities |= KEEL_CAPABILITY_MANAGED | KEEL_CAPABILITY_HOST_REGISTER |
                            KEEL_CAPABILITY_KERNELS | KEEL_CAPABILITY_EXPORT |
                            KEEL_CAPABILITY_NATIVE_GATE;
  return status;
}

keel_status host_register(keel_plugin_device*, void*, uint64_t, void**) {
  return KEEL_UNSUPPORTED;
}
keel_status host_unregister(keel_plugin_device*, void*) {
  return KEEL_UNSUPPORTED;
}

keel_status export_memory(keel_plugin_device*, void*, uint64_t, keel_export_kind, int64_t,
                          keel_memory_export*) {
  return KEEL_UNSUPPORTED;
}
keel_status import_memory(keel_plugin_device*, const keel_memory_export*, void**,
                          keel_plugin_import**) {
  return KEEL_UNSUPPORTED;
}
keel_status close_import(keel_plugin_device*, keel_plugin_import*) {
  return KEEL_UNSUPPORTED;
}

keel_status load(keel_plugin_device*, keel_binary_format, const void*, uint64_t,
                 keel_plugin_module**) {
  return KEEL_UNSUPPORTED;
}
void unload(keel_plugin_module*) {}
keel_status find(keel_plugin_module*, const char*, keel_plugin_kernel**) {
  return KEEL_UNSUPPORTED;
}
keel_status launch(keel_plugin_stream*, keel_plugin_kernel*, const keel_launch*) {
  return KEEL_UNSUPPORTED;
}

constexpr keel_kernel_table kKernelTable = {
    {sizeof(keel_kernel_table), KEEL_STRUCT_KERNEL_TABLE, nullptr}, load, unload, find, launch};

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::faulty::Tables tables = keel::faulty::plain_tables();
  tables.device.info = info;
  tables.memory.host_register = host_register;
  tables.memory.host_unregister = host_unregister;
  tables.memory.export_memory = export_memory;
  tables.memory.import_memory = import_memory;
  tables.memory.close_import = close_import;
  tables.kernel = &kKernelTable;
  return keel::faulty::answer_query("faulty_false_claims", tables, host, out_plugin);
}
