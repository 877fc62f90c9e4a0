// SPDX-License-Identifier: Apache-2.0
// The tables of the emulated chip's plugin: convert handles to objects and statuses to codes.
// emulator/ implements the slots.
#include <keel/abi.h>

#include <algorithm>
#include <cstring>
#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <utility>

#include "backends/sim/ccl_table.h"
#include "backends/sim/handles.h"
#include "backends/sim/instance.h"
#include "backends/sim/settings.h"
#include "backends/sim/test_table.h"
#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/event.h"
#include "emulator/reference_kernel.h"
#include "emulator/stream.h"

namespace keel::sim {
namespace {

using emulator::Address;
using emulator::Event;
using emulator::Status;
using emulator::Stream;

struct Handles {
  template <typename Handle>
  static auto object(Handle* handle) -> decltype(sim::object(handle)) {
    return sim::object(handle);
  }
  static keel_status status(const Status& status) { return answer(status); }
};
using Slots = kit::Slots<Handles>;

// ---- device ------------------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  *out_count = object(instance).devices();
  if (*out_count != 0) return KEEL_OK;
  return kit::fail(KEEL_OK, "no emulated chip was asked for; KEEL_SIM_DEVICES=1 makes one");
}

keel_status device_info(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_device_info* out_info) {
  return kit::guard([&] {
    if (ordinal >= object(instance).devices()) {
      return kit::fail(KEEL_NOT_FOUND, "sim: there is no device %u", ordinal);
    }
    keel_device_info info = {};
    object(instance).describe(&info);
    // |out_info| may have an older, shorter version.
    info.header = out_info->header;
    std::memcpy(out_info, &info, std::min<size_t>(info.header.size, sizeof(info)));
    return keel_status{KEEL_OK};
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    if (ordinal >= object(instance).devices()) {
      return kit::fail(KEEL_NOT_FOUND, "sim: there is no device %u", ordinal);
    }
    auto opened = std::make_unique<OpenDevice>();
    opened->ccl_types = object(instance).ccl_types();
    const Status status = object(instance).open(ordinal, &opened->device);
    if (status.ok()) *out_device = reinterpret_cast<keel_plugin_device*>(opened.release());
    return answer(status);
  });
}

void device_close(keel_plugin_device* device) {
  object(device).close();
  delete reinterpret_cast<OpenDevice*>(device);
}

keel_status device_memory_info(keel_plugin_device* device, uint64_t* out_free,
                               uint64_t* out_total) {
  *out_free = object(device).memory().free_bytes();
  *out_total = object(device).memory().total_bytes();
  return answer(object(device).alive());
}

keel_status device_health(keel_plugin_device* device, keel_device_health* out_health) {
  const Status alive = object(device).alive();
  out_health->ok = alive.ok() ? 1 : 0;
  out_health->throttled = 0;
  out_health->corrected_ecc = 0;
  out_health->uncorrected_ecc = 0;
  kit::copy_text(out_health->text, alive.text().c_str());
  return KEEL_OK;
}

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .memory_info = device_memory_info,
    .health = device_health,
    .native_handle = nullptr,
};

// ---- memory ------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  return kit::guard([&] {
    if (kind == KEEL_MEMORY_PINNED) {
      return answer(object(device).allocate_pinned(size, out_pointer));
    }
    if (kind != KEEL_MEMORY_DEVICE) {
      return kit::fail(KEEL_UNSUPPORTED, "sim: no memory of kind %u", kind);
    }
    Address allocated = 0;
    const Status status = object(device).allocate(size, &allocated);
    if (status.ok()) *out_pointer = reinterpret_cast<void*>(allocated);
    return answer(status);
  });
}

keel_status memory_free(keel_plugin_device* device, keel_memory_kind kind, void* pointer) {
  return kit::guard([&] {
    emulator::Memory& memory = object(device).memory();
    return answer(kind == KEEL_MEMORY_PINNED ? memory.free_pinned(pointer)
                                             : memory.free(address(pointer)));
  });
}

keel_status host_register(keel_plugin_device* device, void* pointer, uint64_t size,
                          void** out_device_pointer) {
  return kit::guard([&] {
    *out_device_pointer = pointer;
    return answer(object(device).memory().pin(pointer, size));
  });
}

keel_status host_unregister(keel_plugin_device* device, void* pointer) {
  return kit::guard([&] { return answer(object(device).memory().unpin(pointer)); });
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
    .host_alias = nullptr,
    .export_memory = nullptr,
    .import_memory = nullptr,
    .close_import = nullptr,
    .peer_enable = peer_enable,
};

// ---- streams and events ------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t priority,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    std::unique_ptr<Stream> stream;
    const Status status = Stream::create(object(device).shared_from_this(), priority, &stream);
    if (status.ok()) *out_stream = reinterpret_cast<keel_plugin_stream*>(stream.release());
    return answer(status);
  });
}

keel_status stream_synchronize(keel_plugin_stream* stream, int64_t timeout_ns) {
  return answer(object(stream).synchronize(deadline_after(timeout_ns)));
}

keel_status stream_copy(keel_plugin_stream* stream, keel_copy_kind kind, void* destination,
                        const void* source, uint64_t size) {
  return kit::guard([&] {
    Stream& on = object(stream);
    switch (kind) {
      case KEEL_COPY_HOST_TO_DEVICE:
        return answer(on.copy_from_host(address(destination), source, size));
      case KEEL_COPY_DEVICE_TO_HOST:
        return answer(on.copy_to_host(destination, address(source), size));
      default:
        return answer(on.copy_within(address(destination), address(source), size));
    }
  });
}

keel_status stream_copy_peer(keel_plugin_stream* stream, keel_plugin_device* destination_device,
                             void* destination, keel_plugin_device* source_device,
                             const void* source, uint64_t size) {
  return kit::guard([&] {
    return answer(object(stream).copy_peer(object(destination_device), address(destination),
                                           object(source_device), address(source), size));
  });
}

keel_status stream_fill(keel_plugin_stream* stream, void* destination, const void* pattern,
                        uint32_t pattern_size, uint64_t size) {
  return kit::guard([&] {
    return answer(object(stream).fill(address(destination), pattern, pattern_size, size));
  });
}

keel_status gate_create(keel_plugin_device*, keel_plugin_gate** out_gate) {
  return kit::guard([&] {
    *out_gate = reinterpret_cast<keel_plugin_gate*>(new Gate);
    return keel_status{KEEL_OK};
  });
}

keel_status gate_open(keel_plugin_gate* gate) {
  return kit::guard([&] {
    object(gate).opening->complete_and_notify({}, emulator::Clock::now());
    return keel_status{KEEL_OK};
  });
}

keel_status stream_wait_gate(keel_plugin_stream* stream, keel_plugin_gate* gate) {
  return kit::guard([&] { return answer(object(stream).wait(object(gate).opening)); });
}

keel_status event_create(keel_plugin_device* device, uint32_t flags,
                         keel_plugin_event** out_event) {
  return kit::guard([&] {
    const Status alive = object(device).alive();
    if (!alive.ok()) return answer(alive);
    const bool timing = (flags & KEEL_EVENT_TIMING) != 0;
    *out_event = reinterpret_cast<keel_plugin_event*>(
        new TimedEvent{Event(object(device).shared_from_this()), timing});
    return keel_status{KEEL_OK};
  });
}

keel_status event_record(keel_plugin_event* event, keel_plugin_stream* stream) {
  return kit::guard([&] { return answer(object(event).event.record(object(stream))); });
}

keel_status event_query(keel_plugin_event* event) {
  return answer(object(event).event.query());
}

keel_status event_wait(keel_plugin_event* event, int64_t timeout_ns) {
  return answer(object(event).event.wait(deadline_after(timeout_ns)));
}

keel_status event_notify(keel_plugin_event* event, keel_notify_fn function, void* user) {
  return kit::guard([&] {
    object(event).event.notify(
        [function, user](const Status& status) { function(user, code_of(status)); });
    return keel_status{KEEL_OK};
  });
}

keel_status stream_wait_event(keel_plugin_stream* stream, keel_plugin_event* event) {
  return kit::guard([&] { return answer(object(event).event.hold_back(object(stream))); });
}

keel_status event_elapsed(keel_plugin_event* start, keel_plugin_event* end,
                          uint64_t* out_nanoseconds) {
  if (!object(start).timing || !object(end).timing) {
    return kit::fail(KEEL_INVALID_ARGUMENT, "sim: both events must be timing events");
  }
  *out_nanoseconds = Event::elapsed_ns(object(start).event, object(end).event);
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
    .gate_create = gate_create,
    .gate_destroy = Slots::destroy<keel_plugin_gate>,
    .gate_open = gate_open,
    .stream_wait_gate = stream_wait_gate,
    .event_create = event_create,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .event_notify = event_notify,
    .stream_wait_event = stream_wait_event,
    .event_elapsed = event_elapsed,
};

// ---- operators ---------------------------------------------------------------

keel_status op_query(keel_plugin_device*, const keel_op_call* call, keel_op_support* out_support) {
  const bool runs = emulator::reference_takes(*call);
  out_support->level = runs ? keel_op_level{KEEL_OP_NATIVE} : keel_op_level{KEEL_OP_NONE};
  out_support->score = runs ? 100 : 0;
  out_support->workspace_bytes = 0;
  out_support->kernel = runs ? "float64_reference" : nullptr;
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* /*workspace*/) {
  return kit::guard([&] { return answer(emulator::launch_reference(object(stream), *call)); });
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
    Settings read;
    const keel_status status = read_settings(settings, &read);
    if (status != KEEL_OK) return status;
    *out_instance = reinterpret_cast<keel_plugin_instance*>(new Instance(std::move(read)));
    return status;
  });
}

void destroy_instance(keel_plugin_instance* instance) {
  delete &object(instance);
}

constexpr keel_plugin kPlugin = {
    .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, &kTestTable},
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "sim",
    .vendor = "Keel",
    .version = KEEL_SIM_VERSION,
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = nullptr,
    .op = &kOpTable,
    .ccl = &kCclTable,
};

}  // namespace
}  // namespace keel::sim

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &keel::sim::kPlugin;
  return KEEL_OK;
}
