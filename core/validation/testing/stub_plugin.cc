// SPDX-License-Identifier: Apache-2.0
#include "core/validation/testing/stub_plugin.h"

#include <cstring>
#include <keel/plugin_kit.hpp>

namespace keel::validation::testing {

namespace {

Stub g_stub;
uintptr_t g_next_object = 0x1000;
uintptr_t g_next_memory = 0x100000;

// Counts the call; returns the status to return at once, or KEEL_OK.
keel_status enter(const char* name) {
  ++g_stub.calls[name];
  const auto answer = g_stub.answers.find(name);
  return answer == g_stub.answers.end() ? KEEL_OK : answer->second;
}

template <typename Handle>
keel_status make(const char* name, Handle** out_handle) {
  const keel_status status = enter(name);
  if (status == KEEL_OK && !g_stub.silent.contains(name)) {
    *out_handle = reinterpret_cast<Handle*>(g_next_object += 0x10);
  }
  return status;
}

template <typename Value>
keel_status give(const char* name, Value value, Value* out_value) {
  const keel_status status = enter(name);
  if (status == KEEL_OK && !g_stub.silent.contains(name)) *out_value = value;
  return status;
}

keel_status device_info(keel_plugin_instance*, uint32_t, keel_device_info* out_info) {
  const keel_status status = enter("info");
  kit::copy_text(out_info->name, "stub");
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->alignment = 256;
  out_info->capabilities =
      ((uint64_t{KEEL_CAPABILITY_PAGEABLE_ASYNC} << 1) - 1) & ~uint64_t{KEEL_CAPABILITY_CCL};
  if (g_stub.edit_info) g_stub.edit_info(out_info);
  return status;
}

keel_status alloc(keel_plugin_device*, keel_memory_kind, uint64_t size, uint32_t,
                  void** out_pointer) {
  const keel_status status = enter("alloc");
  if (status != KEEL_OK || g_stub.silent.contains("alloc")) return status;
  *out_pointer = g_stub.next_pointer;
  if (g_stub.next_pointer == nullptr) {
    *out_pointer = reinterpret_cast<void*>(g_next_memory);
    g_next_memory += (size + 511) / 256 * 256;
  }
  g_stub.next_pointer = nullptr;
  return status;
}

constexpr keel_device_table kDevice = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = [](keel_plugin_instance*,
                uint32_t* out_count) { return give<uint32_t>("count", 2, out_count); },
    .info = device_info,
    .open = [](keel_plugin_instance*, uint32_t,
               keel_plugin_device** out_device) { return make("open", out_device); },
    .close = [](keel_plugin_device*) { enter("close"); },
    .memory_info =
        [](keel_plugin_device*, uint64_t* out_free, uint64_t* out_total) {
          give<uint64_t>("memory_info.total", 1000, out_total);
          return give<uint64_t>("memory_info", 2000, out_free);
        },
    .health =
        [](keel_plugin_device*, keel_device_health* out_health) {
          std::memset(out_health->text, 'x', sizeof(out_health->text));
          return enter("health");
        },
    .native_handle = nullptr,
};

constexpr keel_memory_table kMemory = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = alloc,
    .free = [](keel_plugin_device*, keel_memory_kind, void*) { return enter("free"); },
    .alloc_on_stream =
        [](keel_plugin_stream*, uint64_t size, void** out_pointer) {
          return alloc(nullptr, KEEL_MEMORY_DEVICE, size, 0, out_pointer);
        },
    .free_on_stream = [](keel_plugin_stream*, void*) { return enter("free_on_stream"); },
    .host_register =
        [](keel_plugin_device*, void*, uint64_t, void** out_pointer) {
          return give<void*>("host_register", nullptr, out_pointer);
        },
    .host_unregister = [](keel_plugin_device*, void*) { return enter("host_unregister"); },
    .host_alias = [](keel_plugin_device*, void* pointer, uint64_t,
                     void** out_alias) { return give<void*>("host_alias", pointer, out_alias); },
    .export_memory =
        [](keel_plugin_device*, void*, uint64_t, keel_export_kind kind, int64_t,
           keel_memory_export* out_export) {
          out_export->kind = kind;
          return enter("export_memory");
        },
    .import_memory =
        [](keel_plugin_device*, const keel_memory_export*, void** out_pointer,
           keel_plugin_import** out_import) {
          *out_pointer = reinterpret_cast<void*>(g_next_memory += 0x10000);
          return make("import_memory", out_import);
        },
    .close_import = [](keel_plugin_device*, keel_plugin_import*) { return enter("close_import"); },
    .peer_enable = [](keel_plugin_device*, keel_plugin_device*) { return enter("peer_enable"); },
};

keel_status ask(const char* name) {
  const keel_status status = enter(name);
  return status == KEEL_OK ? g_stub.work : status;
}
keel_status await(const char* name) {
  const keel_status status = ask(name);
  return status == KEEL_NOT_READY ? KEEL_TIMED_OUT : status;
}

constexpr keel_stream_table kStream = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create =
        [](keel_plugin_device*, int32_t, keel_plugin_stream** out_stream) {
          const keel_status status = make("create", out_stream);
          if (g_stub.next_stream != nullptr) *out_stream = g_stub.next_stream;
          return status;
        },
    .destroy = [](keel_plugin_stream*) { enter("destroy"); },
    .wrap = nullptr,
    .unwrap = [](keel_plugin_stream* stream,
                 void** out_native) { return give<void*>("unwrap", stream, out_native); },
    .query = [](keel_plugin_stream*) { return ask("query"); },
    .synchronize = [](keel_plugin_stream*, int64_t) { return await("synchronize"); },
    .copy =
        [](keel_plugin_stream*, keel_copy_kind, void*, const void*, uint64_t) {
          if (g_stub.in_copy) g_stub.in_copy();
          return enter("copy");
        },
    .copy_peer = [](keel_plugin_stream*, keel_plugin_device*, void*, keel_plugin_device*,
                    const void*, uint64_t) { return enter("copy_peer"); },
    .fill = [](keel_plugin_stream*, void*, const void*, uint32_t,
               uint64_t) { return enter("fill"); },
    .gate_create = [](keel_plugin_device*,
                      keel_plugin_gate** out_gate) { return make("gate_create", out_gate); },
    .gate_destroy = [](keel_plugin_gate*) { enter("gate_destroy"); },
    .gate_open = [](keel_plugin_gate*) { return enter("gate_open"); },
    .stream_wait_gate = [](keel_plugin_stream*,
                           keel_plugin_gate*) { return enter("stream_wait_gate"); },
    .event_create = [](keel_plugin_device*, uint32_t,
                       keel_plugin_event** out_event) { return make("event_create", out_event); },
    .event_destroy = [](keel_plugin_event*) { enter("event_destroy"); },
    .event_record = [](keel_plugin_event*, keel_plugin_stream*) { return enter("event_record"); },
    .event_query = [](keel_plugin_event*) { return ask("event_query"); },
    .event_wait = [](keel_plugin_event*, int64_t) { return await("event_wait"); },
    .event_notify =
        [](keel_plugin_event*, keel_notify_fn fn, void* user) {
          g_stub.notifications.emplace_back(fn, user);
          return enter("event_notify");
        },
    .stream_wait_event = [](keel_plugin_stream*,
                            keel_plugin_event*) { return enter("stream_wait_event"); },
    .event_elapsed =
        [](keel_plugin_event*, keel_plugin_event*, uint64_t* out_nanoseconds) {
          return give<uint64_t>("event_elapsed", g_stub.elapsed_ns, out_nanoseconds);
        },
};

constexpr keel_kernel_table kKernel = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = [](keel_plugin_device*, keel_binary_format, const void*, uint64_t,
               keel_plugin_module** out_module) { return make("load", out_module); },
    .unload = [](keel_plugin_module*) { enter("unload"); },
    .find = [](keel_plugin_module*, const char*,
               keel_plugin_kernel** out_kernel) { return make("find", out_kernel); },
    .launch = [](keel_plugin_stream*, keel_plugin_kernel*,
                 const keel_launch*) { return enter("launch"); },
};

constexpr keel_op_table kOp = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query =
        [](keel_plugin_device*, const keel_op_call*, keel_op_support* out_support) {
          const keel_status status = enter("op.query");
          if (g_stub.silent.contains("op.query")) return status;
          out_support->level = g_stub.support_level;
          out_support->workspace_bytes = g_stub.workspace_bytes;
          out_support->kernel = "stub";
          return status;
        },
    .run = [](keel_plugin_stream*, const keel_op_call*, void*) { return enter("op.run"); },
};

constexpr keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "stub",
    .vendor = "Keel tests",
    .version = "1",
    .create_instance =
        [](const keel_instance_settings*, keel_plugin_instance** out_instance) {
          return make("create_instance", out_instance);
        },
    .destroy_instance = [](keel_plugin_instance*) { enter("destroy_instance"); },
    .device = &kDevice,
    .memory = &kMemory,
    .stream = &kStream,
    .kernel = &kKernel,
    .op = &kOp,
    .ccl = nullptr,
};

}  // namespace

Stub& stub() {
  return g_stub;
}

void reset_stub() {
  g_stub = Stub();
}

const keel_plugin& stub_plugin() {
  return kPlugin;
}

}  // namespace keel::validation::testing
