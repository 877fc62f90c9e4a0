// SPDX-License-Identifier: Apache-2.0
/* A plugin without devices, linked to a library in its own folder. */
#include <keel/abi.h>

const char* keel_test_beside(void);

static keel_status create_instance(const keel_instance_settings* settings,
                                   keel_plugin_instance** out_instance) {
  static int object;
  (void)settings;
  *out_instance = (keel_plugin_instance*)&object;
  return KEEL_OK;
}
static void destroy_instance(keel_plugin_instance* instance) {
  (void)instance;
}
static keel_status count(keel_plugin_instance* instance, uint32_t* out_count) {
  (void)instance;
  *out_count = 0;
  return KEEL_OK;
}
static keel_status info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  (void)instance, (void)ordinal, (void)out_info;
  return KEEL_INTERNAL;
}
static keel_status open_device(keel_plugin_instance* instance, uint32_t ordinal,
                               keel_plugin_device** out_device) {
  (void)instance, (void)ordinal, (void)out_device;
  return KEEL_INTERNAL;
}
static void close_device(keel_plugin_device* device) {
  (void)device;
}

static const keel_device_table devices = {
    .header = {sizeof(keel_device_table), KEEL_STRUCT_DEVICE_TABLE, 0},
    .count = count,
    .info = info,
    .open = open_device,
    .close = close_device,
};
static keel_plugin plugin = {
    .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, 0},
    .abi_major = KEEL_ABI_MAJOR,
    .name = "needs_beside",
    .version = "1",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &devices,
};

KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                             const keel_plugin** out_plugin) {
  (void)host;
  plugin.vendor = keel_test_beside();
  *out_plugin = &plugin;
  return KEEL_OK;
}
