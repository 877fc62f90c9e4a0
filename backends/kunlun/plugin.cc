// SPDX-License-Identifier: Apache-2.0
// Keel on Kunlun XPUs through XRE, the vendor's runtime, and BKCL, its collectives library, both
// opened at run time.
//
// Mapping of the slots (docs/abi-coverage.md lists the calls; docs/vendors/kunlun.md states what no
// chip has confirmed):
//
// Devices are XRE's visible ones, in XRE's order; XPU_VISIBLE_DEVICES applies. Each call makes its
// device current on the calling thread and restores the one before. XRE has numbers of devices and
// no handles, so native_handle is NULL.
//
// Memory: xpu_malloc in main memory, xpu_host_alloc. Host memory is registered for copies alone.
// XRE reports no free memory.
//
// Streams: copies by xpu_memcpy_async. An XRE without that function copies by xpu_memcpy once the
// stream is idle: the device then does not claim KEEL_CAPABILITY_ASYNC. XRE has no fill, no
// synchronisation of a device, no priorities, no peer copies on a stream and no times of events:
// those slots are NULL, and core fills from pinned memory.
//
// Events: XRE's wait for an event has no deadline, and its query is in no published header. A
// thread for each stream waits instead, from the first question on: see StreamWaiter. Waits with a
// deadline and notifications come from that thread.
//
// Failures. XRE documents no way to continue after failed work: Keel reports KEEL_DEVICE_LOST with
// XRE's error, and the device stays lost in this process.
//
// Collectives: BKCL, where its library fits the bkcl.h that this plugin was compiled with. Without
// BKCL the capability is not reported, and the table returns the reason. Types that BKCL lacks,
// averages and pre-multiplied sums take Keel's own path.
//
// Operators and kernels: none. XDNN is a C++ interface, and the values that XRE's kernel objects
// need are written by the vendor's compiler alone. Core runs the CPU's operators on staged copies.
//
// Settings: "library_folder", the folder of libxpurt.so; default KEEL_KUNLUN_LIBRARY_FOLDER.
// "bkcl_folder", the folder of libbkcl.so; default KEEL_BKCL_LIBRARY_FOLDER, else the former.
#include <keel/abi.h>

#include <cstring>
#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>

#include "backends/kunlun/ccl_table.h"
#include "backends/kunlun/device.h"
#include "backends/kunlun/event.h"
#include "backends/kunlun/instance.h"
#include "backends/kunlun/stream.h"

namespace keel::kunlun {
namespace {

struct Handles {
  static Instance& object(keel_plugin_instance* handle) {
    return *reinterpret_cast<Instance*>(handle);
  }
  static Device& object(keel_plugin_device* handle) { return *reinterpret_cast<Device*>(handle); }
  static Stream& object(keel_plugin_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
  static Event& object(keel_plugin_event* handle) { return *reinterpret_cast<Event*>(handle); }
};
using Slots = kit::Slots<Handles>;

template <typename Handle>
auto& object(Handle* handle) {
  return Handles::object(handle);
}

// ---- instance and device -------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  return kit::guard([&] {
    const Runtime& runtime = object(instance).runtime();
    *out_count = static_cast<uint32_t>(runtime.devices().size());
    if (*out_count != 0) return keel_status{KEEL_OK};
    return kit::fail(KEEL_OK, "%s", runtime.reason().c_str());
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    std::unique_ptr<Device> device;
    const Instance& from = object(instance);
    return kit::give(Device::open(from.runtime(), ordinal, from.bkcl_folder(), &device), &device,
                     out_device);
  });
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = Slots::device_info<&Instance::describe>,
    .open = device_open,
    .close = Slots::destroy<keel_plugin_device>,
    .memory_info = nullptr,
    .health = Slots::call<&Device::health>,
    .native_handle = nullptr,
};

// ---- memory --------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  return kit::guard([&] { return object(device).alloc(kind, size, out_pointer); });
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
    .export_memory = nullptr,
    .import_memory = nullptr,
    .close_import = nullptr,
    .peer_enable = nullptr,
};

// ---- streams and events ----------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t /*priority*/,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    std::unique_ptr<Stream> stream;
    return kit::give(Stream::create(object(device), &stream), &stream, out_stream);
  });
}

keel_status stream_wrap(keel_plugin_device* device, void* native, keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    std::unique_ptr<Stream> stream;
    return kit::give(Stream::wrap(object(device), native, &stream), &stream, out_stream);
  });
}

keel_status stream_unwrap(keel_plugin_stream* stream, void** out_native) {
  *out_native = object(stream).native();
  return KEEL_OK;
}

keel_status event_create(keel_plugin_device* device, uint32_t flags,
                         keel_plugin_event** out_event) {
  return kit::guard([&] {
    if ((flags & KEEL_EVENT_TIMING) != 0) {
      return kit::fail(KEEL_UNSUPPORTED, "kunlun: XRE's events have no times");
    }
    std::unique_ptr<Event> event;
    return kit::give(Event::create(object(device), &event), &event, out_event);
  });
}

keel_status event_notify(keel_plugin_event* event, keel_notify_fn fn, void* user) {
  return kit::guard([&] {
    object(event).notify(fn, user);
    return keel_status{KEEL_OK};
  });
}

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = stream_create,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = stream_wrap,
    .unwrap = stream_unwrap,
    .query = nullptr,
    .synchronize = nullptr,
    .copy = Slots::call<&Stream::copy>,
    .copy_peer = nullptr,
    .fill = nullptr,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = event_create,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = Slots::call<&Event::record>,
    .event_query = Slots::call<&Event::query>,
    .event_wait = Slots::call<&Event::wait>,
    .event_notify = event_notify,
    .stream_wait_event = Slots::call_on_second<&Event::hold_back>,
    .event_elapsed = nullptr,
};

// ---- the plugin ----------------------------------------------------------------------

const keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "kunlun",
    .vendor = "Keel",
    .version = KEEL_KUNLUN_VERSION,
    .create_instance = Slots::create_instance<Instance>,
    .destroy_instance = Slots::destroy<keel_plugin_instance>,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = nullptr,
    .op = nullptr,
    .ccl = &kCclTable,
};

}  // namespace
}  // namespace keel::kunlun

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &keel::kunlun::kPlugin;
  return KEEL_OK;
}
