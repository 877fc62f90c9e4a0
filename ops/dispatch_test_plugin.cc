// SPDX-License-Identifier: Apache-2.0
// A plugin for dispatch_test only: one device with its own memory, streams that run work
// immediately, and two kernels, one of them poor, so that selection and the fallback have a choice
// on every machine.
#include <keel/abi.h>

#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>

namespace {

namespace kit = keel::kit;

constexpr size_t kAlignment = 64;
constexpr uint64_t kWorkspaceBytes = 256;

// Stateless handles: one per kind serves all objects.
char g_token;
template <typename Handle>
Handle* token() {
  return reinterpret_cast<Handle*>(&g_token);
}

keel_status create_instance(const keel_instance_settings*, keel_plugin_instance** out_instance) {
  *out_instance = token<keel_plugin_instance>();
  return KEEL_OK;
}
void destroy_instance(keel_plugin_instance*) {}

keel_status device_count(keel_plugin_instance*, uint32_t* out_count) {
  *out_count = 1;
  return KEEL_OK;
}
keel_status device_info(keel_plugin_instance*, uint32_t, keel_device_info* out_info) {
  kit::copy_text(out_info->name, "dispatch test device");
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->numa_node = -1;
  out_info->capabilities = KEEL_CAPABILITY_PINNED;
  out_info->alignment = kAlignment;
  out_info->copy_alignment = 1;
  return KEEL_OK;
}
keel_status device_open(keel_plugin_instance*, uint32_t, keel_plugin_device** out_device) {
  *out_device = token<keel_plugin_device>();
  return KEEL_OK;
}
void device_close(keel_plugin_device*) {}

keel_status memory_alloc(keel_plugin_device*, keel_memory_kind, uint64_t size, uint32_t,
                         void** out_pointer) {
  *out_pointer = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  return *out_pointer == nullptr ? KEEL_OUT_OF_MEMORY : KEEL_OK;
}
keel_status memory_free(keel_plugin_device*, keel_memory_kind, void* pointer) {
  std::free(pointer);
  return KEEL_OK;
}

keel_status stream_create(keel_plugin_device*, int32_t, keel_plugin_stream** out_stream) {
  *out_stream = token<keel_plugin_stream>();
  return KEEL_OK;
}
void stream_destroy(keel_plugin_stream*) {}
keel_status stream_copy(keel_plugin_stream*, keel_copy_kind, void* destination, const void* source,
                        uint64_t size) {
  std::memcpy(destination, source, size);
  return KEEL_OK;
}
keel_status event_create(keel_plugin_device*, uint32_t, keel_plugin_event** out_event) {
  *out_event = token<keel_plugin_event>();
  return KEEL_OK;
}
void event_destroy(keel_plugin_event*) {}
keel_status event_record(keel_plugin_event*, keel_plugin_stream*) {
  return KEEL_OK;
}
keel_status event_query(keel_plugin_event*) {
  return KEEL_OK;
}
keel_status stream_wait_event(keel_plugin_stream*, keel_plugin_event*) {
  return KEEL_OK;
}

uint64_t g_queries = 0;

// Supports only dense float32: axpy, and, as a poor kernel with a workspace, addition.
keel_status op_query(keel_plugin_device*, const keel_op_call* call, keel_op_support* out_support) {
  ++g_queries;
  out_support->level = KEEL_OP_NONE;
  if (call->outputs[0]->dtype != KEEL_FLOAT32) return KEEL_OK;
  if (call->op == KEEL_OP_AXPY && kit::is_contiguous(*call->inputs[0]) &&
      kit::is_contiguous(*call->inputs[1]) && kit::is_contiguous(*call->outputs[0])) {
    out_support->level = KEEL_OP_NATIVE;
    out_support->kernel = "axpy";
    return KEEL_OK;
  }
  if (call->op != KEEL_OP_ADD) return KEEL_OK;
  if (!kit::is_contiguous(*call->inputs[0]) || !kit::is_contiguous(*call->inputs[1]) ||
      !kit::is_contiguous(*call->outputs[0])) {
    return kit::fail(KEEL_OK, "add: wants dense tensors");
  }
  out_support->level = KEEL_OP_COMPOSED;
  out_support->score = 50;
  out_support->workspace_bytes = kWorkspaceBytes;
  out_support->kernel = "add_by_workspace";
  return KEEL_OK;
}
keel_status op_run(keel_plugin_stream*, const keel_op_call* call, void* workspace) {
  if (call->op == KEEL_OP_AXPY) {
    const auto* x = kit::first_element<const float>(*call->inputs[0]);
    const auto* y = kit::first_element<const float>(*call->inputs[1]);
    auto* out = kit::first_element<float>(*call->outputs[0]);
    const auto alpha = static_cast<float>(kit::attributes<keel_op_axpy_attributes>(*call).alpha);
    for (int64_t i = 0; i < kit::element_count(*call->outputs[0]); ++i) {
      out[i] = alpha * x[i] + y[i];
    }
    return KEEL_OK;
  }
  if (workspace == nullptr) return kit::fail(KEEL_INTERNAL, "no workspace");
  std::memset(workspace, 0xff, kWorkspaceBytes);
  const auto* a = kit::first_element<const float>(*call->inputs[0]);
  const auto* b = kit::first_element<const float>(*call->inputs[1]);
  auto* c = kit::first_element<float>(*call->outputs[0]);
  for (int64_t i = 0; i < kit::element_count(*call->outputs[0]); ++i) c[i] = a[i] + b[i];
  return KEEL_OK;
}

const keel_device_table kDeviceTable = [] {
  keel_device_table table = {};
  table.header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE);
  table.count = device_count;
  table.info = device_info;
  table.open = device_open;
  table.close = device_close;
  return table;
}();
const keel_memory_table kMemoryTable = [] {
  keel_memory_table table = {};
  table.header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE);
  table.alloc = memory_alloc;
  table.free = memory_free;
  return table;
}();
const keel_stream_table kStreamTable = [] {
  keel_stream_table table = {};
  table.header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE);
  table.create = stream_create;
  table.destroy = stream_destroy;
  table.copy = stream_copy;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_query;
  table.stream_wait_event = stream_wait_event;
  return table;
}();
const keel_op_table kOpTable = [] {
  keel_op_table table = {};
  table.header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE);
  table.query = op_query;
  table.run = op_run;
  return table;
}();
const keel_plugin kPlugin = [] {
  keel_plugin plugin = {};
  plugin.header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN);
  plugin.abi_major = KEEL_ABI_MAJOR;
  plugin.name = "dispatchtest";
  plugin.vendor = "Keel";
  plugin.version = "0";
  plugin.create_instance = create_instance;
  plugin.destroy_instance = destroy_instance;
  plugin.device = &kDeviceTable;
  plugin.memory = &kMemoryTable;
  plugin.stream = &kStreamTable;
  plugin.op = &kOpTable;
  return plugin;
}();

}  // namespace

// Returns how often core queried the plugin.
extern "C" KEEL_EXPORT uint64_t keel_dispatch_test_queries() {
  return g_queries;
}

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  kit::g_host = host;
  *out_plugin = &kPlugin;
  return KEEL_OK;
}
