// SPDX-License-Identifier: Apache-2.0
/* A plugin with one mistake in its tables, chosen by a macro; core must refuse it. */
#include <keel/abi.h>

static keel_status create_instance(const keel_instance_settings* settings,
                                   keel_plugin_instance** out_instance) {
  (void)settings, (void)out_instance;
#ifdef KEEL_BAD_INSTANCE_FAILS
  return KEEL_UNAVAILABLE;
#else
  static int object;
  *out_instance = (keel_plugin_instance*)&object;
  return KEEL_OK;
#endif
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

static const keel_header required = {sizeof(keel_header), KEEL_STRUCT_REQUIRED | 999, 0};
static const keel_device_table devices = {
#ifdef KEEL_BAD_SMALL_TABLE
    .header = {offsetof(keel_device_table, close), KEEL_STRUCT_DEVICE_TABLE, 0},
#elif defined(KEEL_BAD_STRUCT_TYPE)
    .header = {sizeof(keel_device_table), KEEL_STRUCT_MEMORY_TABLE, 0},
#elif defined(KEEL_BAD_EXTENSION)
    .header = {sizeof(keel_device_table), KEEL_STRUCT_DEVICE_TABLE, &required},
#else
    .header = {sizeof(keel_device_table), KEEL_STRUCT_DEVICE_TABLE, 0},
#endif
    .count = count,
#ifndef KEEL_BAD_NULL_SLOT
    .info = info,
#endif
    .open = open_device,
    .close = close_device,
};
static const keel_plugin plugin = {
    .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, 0},
#ifdef KEEL_BAD_ABI_MAJOR
    .abi_major = KEEL_ABI_MAJOR + 1,
#else
    .abi_major = KEEL_ABI_MAJOR,
#endif
    .name = "bad",
    .vendor = "Keel tests",
    .version = "1",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &devices,
};

#ifdef KEEL_BAD_NO_SYMBOL
#define keel_plugin_query_v0 keel_plugin_query_elsewhere
#endif
KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                             const keel_plugin** out_plugin) {
  (void)host, (void)required, (void)info;
#ifdef KEEL_BAD_QUERY_FAILS
  (void)out_plugin, (void)plugin;
  return KEEL_UNSUPPORTED;
#else
  *out_plugin = &plugin;
  return KEEL_OK;
#endif
}
