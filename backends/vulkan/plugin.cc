// SPDX-License-Identifier: Apache-2.0
// Keel on Vulkan 1.2: GPUs of any vendor, and the CPU through Mesa's lavapipe.
//
// Features of Keel's plugin interface that Vulkan lacks, and their replacements:
//
//   Pointers. A device pointer is a bufferDeviceAddress. Kernels receive addresses as
//   push constants and need no descriptors. Copy commands take VkBuffers, which
//   memory.h finds by address. Pinned memory is identified by its host address.
//
//   Streams. Each is a sequence of command buffers submitted to one of the device's
//   queues (stream.h); barriers inside and at the end of each buffer order the stream.
//   queue.h contains the clock, a timeline semaphore per hardware queue, and the thread
//   that runs callbacks when the clock reaches a value: an event is a (queue, value) pair.
//
//   Pageable host memory. If the host can access device memory (lavapipe, integrated
//   GPUs) the host copies once the stream is idle; otherwise copies use staging.h.
//
//   Kernels. GLSL in shaders/, compiled to SPIR-V at build time and specialised for the
//   device in pipelines.h; the ops_*.cc files record the dispatches. User kernels are
//   SPIR-V too (module.h), with addresses as push constants and no descriptors.
//
// Settings: "library_folder", the folder of libvulkan.so.1; default KEEL_VULKAN_LIBRARY_FOLDER.
// "matmul_kernel": auto, shared (tiles in shared memory, for GPUs) or texel (for CPU drivers). The
// environment's KEEL_VULKAN_DEVICE restricts the devices to those with that text in their name.
//
// Not offered: managed memory, export, peer copies, native gates, wrapped streams, stream
// priorities (queues have priorities only from creation).
#include <keel/abi.h>

#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/vulkan/device.h"
#include "backends/vulkan/event.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/module.h"
#include "backends/vulkan/ops.h"
#include "backends/vulkan/stream.h"

namespace keel::vulkan {

namespace {

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

// ---- instance and device -------------------------------------------------------

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  return kit::guard([&]() -> keel_status {
    if (settings != nullptr) {
      const keel_status known = kit::check_extensions(settings->header.next);
      if (known != KEEL_OK) return known;
    }
    std::unique_ptr<Instance> instance;
    const keel_status status = Instance::create(settings, &instance);
    return kit::give(status, &instance, out_instance);
  });
}

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  return kit::guard([&]() -> keel_status {
    *out_count = static_cast<uint32_t>(object(instance).devices().size());
    if (*out_count != 0) return KEEL_OK;
    return kit::fail(KEEL_OK, "%s", object(instance).reason().c_str());
  });
}

keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  return kit::guard([&]() -> keel_status {
    const auto& devices = object(instance).devices();
    if (ordinal >= devices.size()) return kit::fail(KEEL_NOT_FOUND, "no device %u", ordinal);
    // |out_info| may be an older, shorter version.
    const keel_header header = out_info->header;
    const size_t room =
        header.size < sizeof(keel_device_info) ? header.size : sizeof(keel_device_info);
    std::memcpy(out_info, &devices[ordinal].info, room);
    out_info->header = header;
    return KEEL_OK;
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&]() -> keel_status {
    const auto& devices = object(instance).devices();
    if (ordinal >= devices.size()) return kit::fail(KEEL_NOT_FOUND, "no device %u", ordinal);
    std::unique_ptr<Device> device;
    const keel_status status = Device::open(object(instance), devices[ordinal], &device);
    return kit::give(status, &device, out_device);
  });
}

// ---- memory --------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  return kit::guard([&]() -> keel_status {
    const keel_status state = object(device).state();
    return state != KEEL_OK ? state : object(device).memory().allocate(kind, size, out_pointer);
  });
}

keel_status memory_free(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  return kit::guard([&] { return object(device).memory().free(kind, pointer); });
}

keel_status memory_host_register(keel_plugin_device* device, void* pointer, uint64_t size,
                                 void** out_device_pointer) {
  return kit::guard([&]() -> keel_status {
    const keel_status state = object(device).state();
    if (state != KEEL_OK) return state;
    return object(device).memory().register_host(pointer, size, out_device_pointer);
  });
}

keel_status memory_host_unregister(keel_plugin_device* device, void* pointer) {
  return kit::guard([&] { return object(device).memory().unregister_host(pointer); });
}

keel_status memory_host_alias(keel_plugin_device* device, void* pointer, uint64_t size,
                              void** out_alias) {
  BufferByte place;
  if (!object(device).memory().find_device(pointer, size, &place)) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "host_alias: %p is no memory of this device", pointer);
  }
  if (place.host == nullptr) {
    return kit::fail(KEEL_UNSUPPORTED, "host_alias: the host cannot reach the device's memory");
  }
  *out_alias = place.host;
  return KEEL_OK;
}

// ---- streams and events ----------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t /*priority*/,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&]() -> keel_status {
    std::unique_ptr<Stream> stream;
    const keel_status status = Stream::create(object(device), &stream);
    return kit::give(status, &stream, out_stream);
  });
}

// ---- kernels of the caller -----------------------------------------------------------

keel_status kernel_load(keel_plugin_device* device, keel_binary_format format, const void* data,
                        uint64_t size, keel_plugin_module** out_module) {
  return kit::guard([&]() -> keel_status {
    std::unique_ptr<Module> module;
    keel_status status = object(device).state();
    if (status == KEEL_OK) status = Module::load(object(device), format, data, size, &module);
    return kit::give(status, &module, out_module);
  });
}

keel_status kernel_find(keel_plugin_module* module, const char* name,
                        keel_plugin_kernel** out_kernel) {
  Kernel* const kernel = object(module).find(name);
  if (kernel == nullptr) {
    return kit::fail(KEEL_NOT_FOUND, "the SPIR-V module has no compute entry point '%s'", name);
  }
  *out_kernel = reinterpret_cast<keel_plugin_kernel*>(kernel);
  return KEEL_OK;
}

keel_status kernel_launch(keel_plugin_stream* stream, keel_plugin_kernel* kernel,
                          const keel_launch* launch) {
  return kit::guard([&] { return object(kernel).launch(object(stream), *launch); });
}

// ---- operators -------------------------------------------------------------------

keel_status op_query(keel_plugin_device* device, const keel_op_call* call,
                     keel_op_support* out_support) {
  const Op* op = find_op(call->op);
  out_support->level = KEEL_OP_NONE;
  out_support->score = 0;
  out_support->workspace_bytes = 0;
  out_support->kernel = nullptr;
  if (op == nullptr || !op->supports(object(device), *call)) return KEEL_OK;
  out_support->level = KEEL_OP_NATIVE;
  out_support->score = 100;
  out_support->workspace_bytes = op->workspace == nullptr ? 0 : op->workspace(*call);
  out_support->kernel = op->kernel;
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  return kit::guard([&]() -> keel_status {
    const keel_status state = object(stream).device().state();
    if (state != KEEL_OK) return state;
    const Op* op = find_op(call->op);
    if (op == nullptr || !op->supports(object(stream).device(), *call)) {
      return kit::fail(KEEL_UNSUPPORTED, "vulkan has no kernel for this call of op %u", call->op);
    }
    return op->run(object(stream), *call, workspace);
  });
}

// ---- tables ------------------------------------------------------------------------

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = Slots::destroy<keel_plugin_device>,
    .memory_info = Slots::call<&Device::memory_info>,
    .health = nullptr,
    .native_handle = Slots::call<&Device::native_handle>,
};

constexpr keel_memory_table kMemoryTable = {
    .header = kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    .alloc = memory_alloc,
    .free = memory_free,
    .alloc_on_stream = nullptr,
    .free_on_stream = nullptr,
    .host_register = memory_host_register,
    .host_unregister = memory_host_unregister,
    .host_alias = memory_host_alias,
    .export_memory = nullptr,
    .import_memory = nullptr,
    .close_import = nullptr,
    .peer_enable = nullptr,
};

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = stream_create,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = nullptr,
    .unwrap = nullptr,
    .query = Slots::call<&Stream::query>,
    .synchronize = Slots::call<&Stream::synchronize>,
    .copy = Slots::call<&Stream::copy>,
    .copy_peer = nullptr,
    .fill = Slots::call<&Stream::fill>,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = Slots::create<Event, &Event::create>,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = Slots::call_on_second<&Stream::record>,
    .event_query = Slots::call<&Event::query>,
    .event_wait = Slots::call<&Event::wait>,
    .event_notify = Slots::call<&Event::notify>,
    .stream_wait_event = Slots::call<&Stream::wait_event>,
    .event_elapsed = Slots::call_on_second<&Event::elapsed_since>,
};

constexpr keel_kernel_table kKernelTable = {
    .header = kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE),
    .load = kernel_load,
    .unload = Slots::destroy<keel_plugin_module>,
    .find = kernel_find,
    .launch = kernel_launch,
};

constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

constexpr keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "vulkan",
    .vendor = "Keel",
    .version = "0.1.0",
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

}  // namespace keel::vulkan

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  keel::kit::g_host = host;
  *out_plugin = &keel::vulkan::kPlugin;
  return KEEL_OK;
}
