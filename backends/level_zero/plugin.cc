// SPDX-License-Identifier: Apache-2.0
// Keel on GPUs through oneAPI Level Zero, by its loader, opened at run time.
//
// Mapping of the slots (docs/abi-coverage.md lists the calls; docs/vendors/level_zero.md states
// what no chip has confirmed):
//
// Devices are the GPUs of all drivers that the loader finds, in its order; ZE_AFFINITY_MASK
// applies. All devices of a driver share one context, so that pointers mean the same to each of
// them.
//
// Memory: unified shared memory, of the device, of the host, and shared by both. Exports are the
// driver's IPC handles. Memory of the caller is registered by functions of Intel's driver, for
// copies; free memory is system management's, where ZES_ENABLE_SYSMAN=1 enables it.
//
// Streams: an immediate command list each, asynchronous, and a list of a copy engine for large
// copies to and from the host. The commands of a list go behind barriers, since version 1.4 has no
// list that keeps an order. Pageable host memory is passed to the copies as it is.
//
// Events: from pools, reset by the host at each record, and signalled by a barrier. Waits have
// deadlines. Timing events write the device's clock to host memory. Gates are events that the host
// signals.
//
// Failures. The events of a lost device stay unsignalled: queries of pending events ask for the
// device's status, at most every millisecond. A device that is lost stays lost in this process.
//
// Operators: the kernels of kernels/gpu, as SPIR-V, which the driver compiles when a device is
// opened. Collectives: Keel's own path.
//
// Settings: "library_folder", the folder of libze_loader.so.1; default
// KEEL_LEVEL_ZERO_LIBRARY_FOLDER.
//
// Kernels of the caller: SPIR-V for OpenCL.
//
// Not offered: notifications.
#include <keel/abi.h>

#include <cstring>
#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/gpu/ops.h"
#include "backends/level_zero/device.h"
#include "backends/level_zero/event.h"
#include "backends/level_zero/instance.h"
#include "backends/level_zero/ipc.h"
#include "backends/level_zero/module.h"
#include "backends/level_zero/stream.h"

namespace keel::gpu {
namespace {

struct Handles {
  static Instance& object(keel_plugin_instance* handle) {
    return *reinterpret_cast<Instance*>(handle);
  }
  static Device& object(keel_plugin_device* handle) { return *reinterpret_cast<Device*>(handle); }
  static Stream& object(keel_plugin_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
  static Event& object(keel_plugin_event* handle) { return *reinterpret_cast<Event*>(handle); }
  static Module& object(keel_plugin_module* handle) { return *reinterpret_cast<Module*>(handle); }
  static UserKernel& object(keel_plugin_kernel* handle) {
    return *reinterpret_cast<UserKernel*>(handle);
  }
  static Import& object(keel_plugin_import* handle) { return *reinterpret_cast<Import*>(handle); }
  static Gate& object(keel_plugin_gate* handle) { return *reinterpret_cast<Gate*>(handle); }
};
using Slots = kit::Slots<Handles>;

template <typename Handle>
auto& object(Handle* handle) {
  return Handles::object(handle);
}

// ---- instance and device -------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  return kit::guard([&] {
    const Loader& loader = object(instance).loader();
    *out_count = static_cast<uint32_t>(loader.gpus().size());
    if (*out_count != 0) return keel_status{KEEL_OK};
    return kit::fail(KEEL_OK, "%s", loader.reason().c_str());
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    std::unique_ptr<Device> device;
    return kit::give(Device::open(object(instance).loader(), ordinal, &device), &device,
                     out_device);
  });
}

keel_status device_native_handle(keel_plugin_device* device, uint32_t which, void** out_handle) {
  return object(device).native_handle(which, out_handle);
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = Slots::device_info<&Instance::describe>,
    .open = device_open,
    .close = Slots::destroy<keel_plugin_device>,
    .memory_info = Slots::call<&Device::memory_info>,
    .health = Slots::call<&Device::health>,
    .native_handle = device_native_handle,
};

// ---- memory --------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  return kit::guard([&] { return object(device).alloc(kind, size, out_pointer); });
}

keel_status memory_export(keel_plugin_device* device, void* pointer, uint64_t size,
                          keel_export_kind kind, int64_t /*importer_pid*/,
                          keel_memory_export* out_export) {
  return kit::guard([&] { return export_memory(object(device), pointer, size, kind, out_export); });
}

keel_status memory_import(keel_plugin_device* device, const keel_memory_export* exported,
                          void** out_pointer, keel_plugin_import** out_import) {
  return kit::guard([&] {
    std::unique_ptr<Import> import;
    return kit::give(Import::open(object(device), *exported, out_pointer, &import), &import,
                     out_import);
  });
}

keel_status close_import(keel_plugin_device* device, keel_plugin_import* import) {
  return kit::guard([&] {
    const keel_status status = object(import).close(object(device));
    if (status == KEEL_OK) delete &object(import);
    return status;
  });
}

constexpr keel_memory_table kMemoryTable = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = memory_alloc,
    .free = Slots::call<&Device::free>,
    .alloc_on_stream = nullptr,
    .free_on_stream = nullptr,
    .host_register = Slots::call<&Device::host_register>,
    .host_unregister = Slots::call<&Device::host_unregister>,
    .host_alias = nullptr,
    .export_memory = memory_export,
    .import_memory = memory_import,
    .close_import = close_import,
    .peer_enable = Slots::call<&Device::peer_enable>,
};

// ---- streams and events ----------------------------------------------------------

keel_status stream_wrap(keel_plugin_device* device, void* native, keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    std::unique_ptr<Stream> stream;
    return kit::give(Stream::wrap(object(device), static_cast<ze::CommandList>(native), &stream),
                     &stream, out_stream);
  });
}

keel_status gate_create(keel_plugin_device* device, keel_plugin_gate** out_gate) {
  return kit::guard([&] {
    std::unique_ptr<Gate> gate;
    return kit::give(Gate::create(object(device), &gate), &gate, out_gate);
  });
}

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = Slots::create<Stream, &Stream::create>,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = stream_wrap,
    .unwrap = Slots::call<&Stream::unwrap>,
    .query = nullptr,
    .synchronize = nullptr,
    .copy = Slots::call<&Stream::copy>,
    .copy_peer = Slots::call<&Stream::copy_peer>,
    .fill = Slots::call<&Stream::fill>,
    .gate_create = gate_create,
    .gate_destroy = Slots::destroy<keel_plugin_gate>,
    .gate_open = Slots::call<&Gate::open>,
    .stream_wait_gate = Slots::call_on_second<&Gate::hold_back>,
    .event_create = Slots::create<Event, &Event::create>,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = Slots::call<&Event::record>,
    .event_query = Slots::call<&Event::query>,
    .event_wait = Slots::call<&Event::wait>,
    .event_notify = nullptr,
    .stream_wait_event = Slots::call_on_second<&Event::hold_back>,
    .event_elapsed = Slots::call_on_second<&Event::elapsed_since>,
};

// ---- kernels of the caller ---------------------------------------------------------

keel_status kernel_load(keel_plugin_device* device, keel_binary_format format, const void* data,
                        uint64_t size, keel_plugin_module** out_module) {
  return kit::guard([&] {
    std::unique_ptr<Module> module;
    return kit::give(Module::load(object(device), format, data, size, &module), &module,
                     out_module);
  });
}

keel_status kernel_find(keel_plugin_module* module, const char* name,
                        keel_plugin_kernel** out_kernel) {
  return kit::guard([&] {
    UserKernel* kernel = nullptr;
    const keel_status status = object(module).find(name, &kernel);
    if (status == KEEL_OK) *out_kernel = reinterpret_cast<keel_plugin_kernel*>(kernel);
    return status;
  });
}

keel_status kernel_launch(keel_plugin_stream* stream, keel_plugin_kernel* kernel,
                          const keel_launch* launch) {
  return kit::guard([&] { return object(kernel).launch(object(stream), *launch); });
}

constexpr keel_kernel_table kKernelTable = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = kernel_load,
    .unload = Slots::destroy<keel_plugin_module>,
    .find = kernel_find,
    .launch = kernel_launch,
};

// ---- operators ---------------------------------------------------------------------

bool can_run(const Device& device, const Op* op, const keel_op_call& call) {
  const Kernels* const kernels = device.kernels();
  return op != nullptr && kernels != nullptr && op->supports(call) && kernels->can_compute(call);
}

keel_status op_query(keel_plugin_device* device, const keel_op_call* call,
                     keel_op_support* out_support) {
  return kit::guard([&]() -> keel_status {
    const Op* const op = find_op(call->op);
    out_support->level = KEEL_OP_NONE;
    out_support->score = 0;
    out_support->workspace_bytes = 0;
    out_support->kernel = nullptr;
    if (!can_run(object(device), op, *call)) return KEEL_OK;
    out_support->level = KEEL_OP_NATIVE;
    out_support->score = 100;
    out_support->workspace_bytes = op->workspace == nullptr ? 0 : op->workspace(*call);
    out_support->kernel = op->kernel;
    return KEEL_OK;
  });
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  return kit::guard([&]() -> keel_status {
    const Op* const op = find_op(call->op);
    if (!can_run(object(stream).device(), op, *call)) {
      return kit::fail(KEEL_UNSUPPORTED, "level_zero: no kernel for this call of op %u", call->op);
    }
    return op->run(object(stream), *call, workspace);
  });
}

constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

// ---- the plugin ----------------------------------------------------------------------

const keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "level_zero",
    .vendor = "Keel",
    .version = KEEL_LEVEL_ZERO_VERSION,
    .create_instance = Slots::create_instance<Instance>,
    .destroy_instance = Slots::destroy<keel_plugin_instance>,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = &kKernelTable,
    .op = &kOpTable,
    .ccl = nullptr,
};

}  // namespace
}  // namespace keel::gpu

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &keel::gpu::kPlugin;
  return KEEL_OK;
}
