// SPDX-License-Identifier: Apache-2.0
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
          // Step 6, with kTestTable: accept "conformance", and remember whether it is "1".
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
  // Step 2: fill every member; claim (KEEL_CAPABILITY_*) only what is done. Keep the header, and
  // write no more than its size.
  return kit::fail(KEEL_NOT_FOUND, "skeleton: there is no device %u", ordinal);
}

keel_status device_open(keel_plugin_instance*, uint32_t ordinal, keel_plugin_device**) {
  // Step 3.
  return kit::fail(KEEL_NOT_FOUND, "skeleton: there is no device %u", ordinal);
}

void device_close(keel_plugin_device*) {}

// ---- what a plugin with devices must have: placeholders, to be written step by step --------

[[maybe_unused]] keel_status not_written(const char* slot) {
  return kit::fail(KEEL_UNSUPPORTED, "skeleton: %s is not written yet", slot);
}

// Step 4.

keel_status memory_alloc(keel_plugin_device*, keel_memory_kind, uint64_t /*size*/,
                         uint32_t /*usage*/, void** /*out_pointer*/) {
  return not_written("memory.alloc");
}

keel_status memory_free(keel_plugin_device*, keel_memory_kind, void* /*pointer*/) {
  return not_written("memory.free");
}

// Step 5.

keel_status stream_create(keel_plugin_device*, int32_t /*priority*/, keel_plugin_stream**) {
  return not_written("stream.create");
}

void stream_destroy(keel_plugin_stream*) {}

keel_status stream_copy(keel_plugin_stream*, keel_copy_kind, void* /*destination*/,
                        const void* /*source*/, uint64_t /*size*/) {
  return not_written("stream.copy");
}

keel_status event_create(keel_plugin_device*, uint32_t /*flags*/, keel_plugin_event**) {
  return not_written("stream.event_create");
}

void event_destroy(keel_plugin_event*) {}

keel_status event_record(keel_plugin_event*, keel_plugin_stream*) {
  return not_written("stream.event_record");
}

keel_status event_query(keel_plugin_event*) {
  return not_written("stream.event_query");
}

keel_status stream_wait_event(keel_plugin_stream*, keel_plugin_event*) {
  return not_written("stream.stream_wait_event");
}

// ---- optional tables: not in kPlugin yet ---------------------------------------

// Step 6: failures and waits on demand, for objects of an instance with conformance=1.

keel_status fail_work(keel_plugin_stream*, keel_status /*status*/) {
  return not_written("test.fail_work");
}

keel_status hold(keel_plugin_stream*, keel_plugin_hold**) {
  return not_written("test.hold");
}

void release(keel_plugin_hold*) {}

[[maybe_unused]] constexpr keel_test_table kTestTable = {
    .header = kit::header<keel_test_table>(KEEL_STRUCT_TEST_TABLE),
    .fail_work = fail_work,
    .hold = hold,
    .release = release,
    .lose_device = nullptr,
};

// Step 7. KEEL_OP_NONE is the answer for each call without a kernel.

keel_status op_query(keel_plugin_device*, const keel_op_call* /*call*/,
                     keel_op_support* out_support) {
  out_support->level = KEEL_OP_NONE;
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream*, const keel_op_call* /*call*/, void* /*workspace*/) {
  return not_written("op.run");
}

[[maybe_unused]] constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

// Step 8. |data| is gone when load returns: KEEL_UNSUPPORTED for a format of others,
// KEEL_INVALID_ARGUMENT for bytes that the SDK could not read.

keel_status kernel_load(keel_plugin_device*, keel_binary_format format, const void* /*data*/,
                        uint64_t /*size*/, keel_plugin_module**) {
  if (format != KEEL_BINARY_VENDOR) {
    return kit::fail(KEEL_UNSUPPORTED, "skeleton: format %u; only KEEL_BINARY_VENDOR", format);
  }
  return not_written("kernel.load");
}

void kernel_unload(keel_plugin_module*) {}

keel_status kernel_find(keel_plugin_module*, const char* name, keel_plugin_kernel**) {
  return kit::fail(KEEL_NOT_FOUND, "skeleton: the module has no kernel '%s'", name);
}

// The arguments are gone when launch returns.
keel_status kernel_launch(keel_plugin_stream*, keel_plugin_kernel*, const keel_launch* /*launch*/) {
  return not_written("kernel.launch");
}

[[maybe_unused]] constexpr keel_kernel_table kKernelTable = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = kernel_load,
    .unload = kernel_unload,
    .find = kernel_find,
    .launch = kernel_launch,
};

// ---- tables: a slot that is NULL is absent, and core does without it -----------------------

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

constexpr keel_memory_table kMemoryTable = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = memory_alloc,
    .free = memory_free,
    .alloc_on_stream = nullptr,
    .free_on_stream = nullptr,
    .host_register = nullptr,
    .host_unregister = nullptr,
    .host_alias = nullptr,
    .export_memory = nullptr,
    .import_memory = nullptr,
    .close_import = nullptr,
    .peer_enable = nullptr,
};

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = stream_create,
    .destroy = stream_destroy,
    .wrap = nullptr,
    .unwrap = nullptr,
    .query = nullptr,
    .synchronize = nullptr,
    .copy = stream_copy,
    .copy_peer = nullptr,
    .fill = nullptr,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = nullptr,
    .event_notify = nullptr,
    .stream_wait_event = stream_wait_event,
    .event_elapsed = nullptr,
};

// ---- the plugin ----------------------------------------------------------------

constexpr keel_plugin kPlugin = {
    // Step 6: {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, &kTestTable}
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "skeleton",
    .vendor = "Keel",
    .version = "0.1.0",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = nullptr,  // step 8: &kKernelTable
    .op = nullptr,      // step 7: &kOpTable
    .ccl = nullptr,     // step 9
};

}  // namespace

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  kit::g_host = host;
  *out_plugin = &kPlugin;
  return KEEL_OK;
}
