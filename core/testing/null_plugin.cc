// SPDX-License-Identifier: Apache-2.0
// The backend `null`: a device that does nothing, at once. The cost of a call through keel.h beyond
// the plugin's function is then Keel's own.
#include <cstdlib>
#include <keel/plugin_kit.hpp>

namespace keel::null {

namespace {

// The target of every handle; holds nothing.
char g_object;

template <typename Handle>
keel_status give(Handle** out_handle) {
  *out_handle = reinterpret_cast<Handle*>(&g_object);
  return KEEL_OK;
}

keel_status device_info(keel_plugin_instance*, uint32_t, keel_device_info* out_info) {
  kit::copy_text(out_info->name, "a device that does nothing");
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->numa_node = -1;
  out_info->alignment = 64;
  out_info->capabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_NOTIFY |
                           KEEL_CAPABILITY_KERNELS | KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_FILL |
                           KEEL_CAPABILITY_PAGEABLE_ASYNC;
  return KEEL_OK;
}

// Real memory, so that addresses are as on other backends.
keel_status alloc(keel_plugin_device*, keel_memory_kind, uint64_t size, uint32_t,
                  void** out_pointer) {
  *out_pointer = std::aligned_alloc(64, (size + 63) / 64 * 64);
  return *out_pointer == nullptr ? KEEL_OUT_OF_MEMORY : KEEL_OK;
}

constexpr keel_device_table kDevice = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count =
        [](keel_plugin_instance*, uint32_t* out_count) {
          *out_count = 1;
          return keel_status{KEEL_OK};
        },
    .info = device_info,
    .open = [](keel_plugin_instance*, uint32_t,
               keel_plugin_device** out_device) { return give(out_device); },
    .close = [](keel_plugin_device*) {},
    .memory_info = nullptr,
    .health = nullptr,
    .native_handle = nullptr,
};

constexpr keel_memory_table kMemory = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = alloc,
    .free =
        [](keel_plugin_device*, keel_memory_kind, void* pointer) {
          std::free(pointer);
          return keel_status{KEEL_OK};
        },
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

constexpr keel_stream_table kStream = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = [](keel_plugin_device*, int32_t,
                 keel_plugin_stream** out_stream) { return give(out_stream); },
    .destroy = [](keel_plugin_stream*) {},
    .wrap = nullptr,
    .unwrap = nullptr,
    .query = [](keel_plugin_stream*) { return keel_status{KEEL_OK}; },
    .synchronize = [](keel_plugin_stream*, int64_t) { return keel_status{KEEL_OK}; },
    .copy = [](keel_plugin_stream*, keel_copy_kind, void*, const void*,
               uint64_t) { return keel_status{KEEL_OK}; },
    .copy_peer = nullptr,
    .fill = [](keel_plugin_stream*, void*, const void*, uint32_t,
               uint64_t) { return keel_status{KEEL_OK}; },
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = [](keel_plugin_device*, uint32_t,
                       keel_plugin_event** out_event) { return give(out_event); },
    .event_destroy = [](keel_plugin_event*) {},
    .event_record = [](keel_plugin_event*, keel_plugin_stream*) { return keel_status{KEEL_OK}; },
    .event_query = [](keel_plugin_event*) { return keel_status{KEEL_OK}; },
    .event_wait = [](keel_plugin_event*, int64_t) { return keel_status{KEEL_OK}; },
    .event_notify =
        [](keel_plugin_event*, keel_notify_fn fn, void* user) {
          fn(user, KEEL_OK);
          return keel_status{KEEL_OK};
        },
    .stream_wait_event = [](keel_plugin_stream*,
                            keel_plugin_event*) { return keel_status{KEEL_OK}; },
    .event_elapsed = nullptr,
};

constexpr keel_kernel_table kKernel = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = [](keel_plugin_device*, keel_binary_format, const void*, uint64_t,
               keel_plugin_module** out_module) { return give(out_module); },
    .unload = [](keel_plugin_module*) {},
    .find = [](keel_plugin_module*, const char*,
               keel_plugin_kernel** out_kernel) { return give(out_kernel); },
    .launch = [](keel_plugin_stream*, keel_plugin_kernel*,
                 const keel_launch*) { return keel_status{KEEL_OK}; },
};

constexpr keel_op_table kOp = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query =
        [](keel_plugin_device*, const keel_op_call*, keel_op_support* out_support) {
          out_support->level = KEEL_OP_NATIVE;
          out_support->score = 1;
          out_support->kernel = "nothing";
          return keel_status{KEEL_OK};
        },
    .run = [](keel_plugin_stream*, const keel_op_call*, void*) { return keel_status{KEEL_OK}; },
};

constexpr keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "null",
    .vendor = "Keel tests",
    .version = "1",
    .create_instance = [](const keel_instance_settings*,
                          keel_plugin_instance** out_instance) { return give(out_instance); },
    .destroy_instance = [](keel_plugin_instance*) {},
    .device = &kDevice,
    .memory = &kMemory,
    .stream = &kStream,
    .kernel = &kKernel,
    .op = &kOp,
    .ccl = nullptr,
};

}  // namespace
}  // namespace keel::null

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::kit::g_host = host;
  *out_plugin = &keel::null::kPlugin;
  return KEEL_OK;
}
