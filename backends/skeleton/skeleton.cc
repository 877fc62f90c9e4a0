// A plugin for a chip that has not been written yet. It loads, has no devices and
// says so, and passes the null level of `keel conform`. README.md lists what to
// fill in, in the order in which each step can be tested.
#include <keel/abi.h>

#include <keel/plugin_kit.hpp>
#include <string>
#include <string_view>

namespace {

namespace kit = keel::kit;

// ---- the instance: one set of settings, one copy of the vendor's SDK -----------

struct Instance {
  std::string library_folder;  // empty: where the dynamic loader looks
  // kit::VendorLibrary sdk;   // and the functions found in it
};

Instance& object(keel_plugin_instance* handle) {
  return *reinterpret_cast<Instance*>(handle);
}

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  return kit::guard([&]() -> keel_status {
    Instance instance;
    if (settings != nullptr) {
      const keel_status status = kit::check_extensions(settings->header.next);
      if (status != KEEL_OK) return status;
      for (uint32_t i = 0; i < settings->count; ++i) {
        const std::string_view key = settings->keys[i];
        if (key == "library_folder") {
          instance.library_folder = settings->values[i];
        } else {
          return kit::fail(KEEL_INVALID_ARGUMENT, "skeleton: setting '%s' is not known",
                           settings->keys[i]);
        }
      }
    }
    // Step 1: open the SDK here. That it is absent is no failure: remember why, and
    // let device_count say it.
    *out_instance = reinterpret_cast<keel_plugin_instance*>(new Instance(instance));
    return KEEL_OK;
  });
}

void destroy_instance(keel_plugin_instance* instance) {
  delete &object(instance);
}

// ---- devices -------------------------------------------------------------------

keel_status device_count(keel_plugin_instance*, uint32_t* out_count) {
  // Step 2: ask the SDK.
  *out_count = 0;
  return kit::fail(KEEL_OK, "skeleton: this plugin is a template and drives no chip");
}

keel_status device_info(keel_plugin_instance*, uint32_t ordinal, keel_device_info*) {
  // Step 2: fill every member; claim (KEEL_CLAIM_*) only what is done.
  return kit::fail(KEEL_NOT_FOUND, "skeleton: there is no device %u", ordinal);
}

keel_status device_open(keel_plugin_instance*, uint32_t ordinal, keel_plugin_device**) {
  // Step 3.
  return kit::fail(KEEL_NOT_FOUND, "skeleton: there is no device %u", ordinal);
}

void device_close(keel_plugin_device*) {}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .memory_info = nullptr,
    .health = nullptr,
    .native_handle = nullptr,
};

// ---- the plugin ----------------------------------------------------------------

constexpr keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "skeleton",
    .vendor = "Keel",
    .version = "0.1.0",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &kDeviceTable,
    .memory = nullptr,  // step 4
    .stream = nullptr,  // step 5
    .kernel = nullptr,  // step 7
    .op = nullptr,      // step 6
    .ccl = nullptr,     // step 8
};

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  kit::g_host = host;
  *out_plugin = &kPlugin;
  return KEEL_OK;
}
