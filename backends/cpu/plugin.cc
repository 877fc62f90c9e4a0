// SPDX-License-Identifier: Apache-2.0
// The tables of the CPU plugin: struct checks and conversions of handles to objects. The objects
// implement the slots.
#include <keel/abi.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/cpu/instance.h"
#include "backends/cpu/ops/ops.h"
#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/event.h"
#include "backends/cpu/runtime/huge_pages.h"
#include "backends/cpu/runtime/module.h"
#include "backends/cpu/runtime/stream.h"
#include "backends/cpu/test_table.h"

namespace keel::cpu {
namespace {

// A handle is the address of the object behind it.
struct Handles {
  static Instance& object(keel_plugin_instance* handle) {
    return *reinterpret_cast<Instance*>(handle);
  }
  static Device& object(keel_plugin_device* handle) { return *reinterpret_cast<Device*>(handle); }
  static Stream& object(keel_plugin_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
  static Event& object(keel_plugin_event* handle) { return *reinterpret_cast<Event*>(handle); }
  static Module& object(keel_plugin_module* handle) { return *reinterpret_cast<Module*>(handle); }
  static Kernel& object(keel_plugin_kernel* handle) { return *reinterpret_cast<Kernel*>(handle); }
};
using Slots = kit::Slots<Handles>;

template <typename Handle>
auto& object(Handle* handle) {
  return Handles::object(handle);
}

// ---- device ------------------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  *out_count = object(instance).devices();
  return KEEL_OK;
}

keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  return kit::guard([&] {
    if (ordinal >= object(instance).devices()) {
      return kit::fail(KEEL_NOT_FOUND, "cpu: there is no device %u", ordinal);
    }
    keel_device_info info = {};
    object(instance).describe(&info);
    // |out_info| may be an older, shorter version.
    info.header = out_info->header;
    std::memcpy(out_info, &info, std::min<size_t>(info.header.size, sizeof(info)));
    return keel_status{KEEL_OK};
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    if (ordinal >= object(instance).devices()) {
      return kit::fail(KEEL_NOT_FOUND, "cpu: there is no device %u", ordinal);
    }
    *out_device = reinterpret_cast<keel_plugin_device*>(object(instance).open().release());
    return keel_status{KEEL_OK};
  });
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = Slots::destroy<keel_plugin_device>,
    .memory_info = Slots::call<&Device::memory_info>,
    .health = nullptr,
    .native_handle = nullptr,
};

// ---- memory ------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  return kit::guard([&] { return object(device).allocate(kind, size, out_pointer); });
}

keel_status memory_free(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  return kit::guard([&] { return object(device).release(kind, pointer); });
}

// Worker threads can access every page already. Huge pages are faster to read, but commit memory
// that the caller has not touched, and take time: only on request.
keel_status host_register(keel_plugin_device* device, void* pointer, uint64_t size,
                          void** out_device_pointer) {
  if (object(device).register_huge_pages()) commit_huge_pages(pointer, size);
  *out_device_pointer = pointer;
  return KEEL_OK;
}

keel_status host_unregister(keel_plugin_device*, void*) {
  return KEEL_OK;
}

keel_status host_alias(keel_plugin_device* device, void* pointer, uint64_t, void** out_alias) {
  if (object(device).guarded()) {
    return kit::fail(KEEL_UNSUPPORTED, "cpu: KEEL_CPU_GUARD keeps device memory from the host");
  }
  *out_alias = pointer;
  return KEEL_OK;
}

keel_status export_memory(keel_plugin_device* device, void* pointer, uint64_t size,
                          keel_export_kind kind, int64_t /*importer_pid*/,
                          keel_memory_export* out_export) {
  return object(device).export_memory(pointer, size, kind, out_export);
}

keel_status import_memory(keel_plugin_device* device, const keel_memory_export* exported,
                          void** out_pointer, keel_plugin_import** out_import) {
  return kit::guard([&] {
    Import* import = nullptr;
    const keel_status status = object(device).import_memory(*exported, out_pointer, &import);
    *out_import = reinterpret_cast<keel_plugin_import*>(import);
    return status;
  });
}

keel_status close_import(keel_plugin_device* device, keel_plugin_import* import) {
  object(device).close_import(reinterpret_cast<Import*>(import));
  return KEEL_OK;
}

keel_status peer_enable(keel_plugin_device*, keel_plugin_device*) {
  return KEEL_OK;
}

constexpr keel_memory_table kMemoryTable = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = memory_alloc,
    .free = memory_free,
    .alloc_on_stream = nullptr,
    .free_on_stream = nullptr,
    .host_register = host_register,
    .host_unregister = host_unregister,
    .host_alias = host_alias,
    .export_memory = export_memory,
    .import_memory = import_memory,
    .close_import = close_import,
    .peer_enable = peer_enable,
};

// ---- streams and events ------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t /*priority*/,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    *out_stream = reinterpret_cast<keel_plugin_stream*>(new Stream(object(device)));
    return keel_status{KEEL_OK};
  });
}

keel_status stream_synchronize(keel_plugin_stream* stream, int64_t timeout_ns) {
  return object(stream).synchronize(deadline_after(timeout_ns));
}

// to_host leaves host addresses as they are, so the direction does not matter.
keel_status stream_copy(keel_plugin_stream* stream, keel_copy_kind /*kind*/, void* destination,
                        const void* source, uint64_t size) {
  return kit::guard([&] {
    Device& device = object(stream).device();
    device.copy(object(stream), device.to_host(destination), device.to_host(source), size);
    return keel_status{KEEL_OK};
  });
}

keel_status stream_copy_peer(keel_plugin_stream* stream, keel_plugin_device* destination_device,
                             void* destination, keel_plugin_device* source_device,
                             const void* source, uint64_t size) {
  return kit::guard([&] {
    object(stream).device().copy(object(stream), object(destination_device).to_host(destination),
                                 object(source_device).to_host(source), size);
    return keel_status{KEEL_OK};
  });
}

keel_status stream_fill(keel_plugin_stream* stream, void* destination, const void* pattern,
                        uint32_t pattern_size, uint64_t size) {
  return kit::guard([&] {
    Device& device = object(stream).device();
    device.fill(object(stream), device.to_host(destination), pattern, pattern_size, size);
    return keel_status{KEEL_OK};
  });
}

keel_status event_create(keel_plugin_device* device, uint32_t flags,
                         keel_plugin_event** out_event) {
  return kit::guard([&] {
    const bool timing = (flags & KEEL_EVENT_TIMING) != 0;
    *out_event =
        reinterpret_cast<keel_plugin_event*>(new Event(object(device).parking_lot(), timing));
    return keel_status{KEEL_OK};
  });
}

keel_status event_record(keel_plugin_event* event, keel_plugin_stream* stream) {
  return kit::guard([&] {
    object(stream).record(object(event));
    return keel_status{KEEL_OK};
  });
}

keel_status event_wait(keel_plugin_event* event, int64_t timeout_ns) {
  return object(event).wait(deadline_after(timeout_ns));
}

keel_status event_notify(keel_plugin_event* event, keel_notify_fn function, void* user) {
  return kit::guard([&] {
    object(event).notify({function, user});
    return keel_status{KEEL_OK};
  });
}

keel_status stream_wait_event(keel_plugin_stream* stream, keel_plugin_event* event) {
  return kit::guard([&] {
    object(stream).wait_for(object(event));
    return keel_status{KEEL_OK};
  });
}

keel_status event_elapsed(keel_plugin_event* start, keel_plugin_event* end,
                          uint64_t* out_nanoseconds) {
  if (!object(start).timing() || !object(end).timing()) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "cpu: both events must be timing events");
  }
  const auto elapsed = object(end).completed_at() - object(start).completed_at();
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  *out_nanoseconds = nanoseconds < 0 ? 0 : static_cast<uint64_t>(nanoseconds);
  return KEEL_OK;
}

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = stream_create,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = nullptr,
    .unwrap = nullptr,
    .query = Slots::call<&Stream::query>,
    .synchronize = stream_synchronize,
    .copy = stream_copy,
    .copy_peer = stream_copy_peer,
    .fill = stream_fill,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = event_create,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = event_record,
    .event_query = Slots::call<&Event::query>,
    .event_wait = event_wait,
    .event_notify = event_notify,
    .stream_wait_event = stream_wait_event,
    .event_elapsed = event_elapsed,
};

// ---- kernels of the caller -----------------------------------------------------

keel_status kernel_load(keel_plugin_device*, keel_binary_format format, const void* data,
                        uint64_t size, keel_plugin_module** out_module) {
  return kit::guard([&] {
    std::unique_ptr<Module> module;
    const keel_status status = Module::load(format, data, size, &module);
    if (status == KEEL_OK) *out_module = reinterpret_cast<keel_plugin_module*>(module.release());
    return status;
  });
}

keel_status kernel_find(keel_plugin_module* module, const char* name,
                        keel_plugin_kernel** out_kernel) {
  return kit::guard([&] {
    Kernel* const kernel = object(module).find(name);
    if (kernel == nullptr) {
      return kit::fail(KEEL_NOT_FOUND, "cpu: the shared object exports no function '%s'", name);
    }
    *out_kernel = reinterpret_cast<keel_plugin_kernel*>(kernel);
    return keel_status{KEEL_OK};
  });
}

keel_status kernel_launch(keel_plugin_stream* stream, keel_plugin_kernel* kernel,
                          const keel_launch* launch) {
  return kit::guard(
      [&] { return object(kernel).module.launch(object(stream), object(kernel), *launch); });
}

constexpr keel_kernel_table kKernelTable = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = kernel_load,
    .unload = Slots::destroy<keel_plugin_module>,
    .find = kernel_find,
    .launch = kernel_launch,
};

// ---- operators ---------------------------------------------------------------

keel_status op_query(keel_plugin_device*, const keel_op_call* call, keel_op_support* out_support) {
  const Operator* const op = find_operator(call->op);
  const OpSupport support = op == nullptr ? OpSupport{} : op->query(*call);
  const bool runs = support.name != nullptr;
  out_support->level = runs ? support.level : keel_op_level{KEEL_OP_NONE};
  out_support->score = runs ? 100 : 0;
  out_support->workspace_bytes = runs ? support.workspace_bytes : 0;
  out_support->kernel = support.name;
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  return kit::guard([&] {
    const Operator* const op = find_operator(call->op);
    if (op == nullptr) return kit::fail(KEEL_UNSUPPORTED, "cpu: no kernel for op %u", call->op);
    op->run(object(stream), *call, object(stream).device().to_host(workspace));
    return keel_status{KEEL_OK};
  });
}

constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

// ---- the plugin --------------------------------------------------------------

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  return kit::guard([&] {
    if (settings != nullptr) {
      const keel_status status = kit::check_extensions(settings->header.next);
      if (status != KEEL_OK) return status;
    }
    std::unique_ptr<Instance> instance;
    const keel_status status = Instance::create(settings, &instance);
    *out_instance = reinterpret_cast<keel_plugin_instance*>(instance.release());
    return status;
  });
}

constexpr keel_plugin kPlugin = {
    .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, &kTestTable},
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "cpu",
    .vendor = "Keel",
    .version = KEEL_CPU_VERSION,
    .create_instance = create_instance,
    .destroy_instance = Slots::destroy<keel_plugin_instance>,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = &kKernelTable,
    .op = &kOpTable,
    .ccl = nullptr,
};

}  // namespace
}  // namespace keel::cpu

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &keel::cpu::kPlugin;
  return KEEL_OK;
}
