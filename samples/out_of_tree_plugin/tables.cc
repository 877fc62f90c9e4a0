// SPDX-License-Identifier: Apache-2.0
// Implements the slots of the ABI with the chip; abi.h documents each slot.
#include "tables.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <utility>

#include "chip.h"
#include "ops.h"

namespace tinychip {

namespace kit = keel::kit;

namespace {

struct Instance {
  bool conformance = false;  // the test table is enabled
};

// Shared with streams that will still access the event.
using SharedEvent = std::shared_ptr<Event>;

struct Device {
  Memory memory;
  bool conformance;
};

Device& open_device(keel_plugin_device* handle) {
  return *reinterpret_cast<Device*>(handle);
}
Memory& memory_of(keel_plugin_device* handle) {
  return open_device(handle).memory;
}
SharedEvent& shared(keel_plugin_event* handle) {
  return *reinterpret_cast<SharedEvent*>(handle);
}

}  // namespace

Stream& object(keel_plugin_stream* handle) {
  return *reinterpret_cast<Stream*>(handle);
}
Event& object(keel_plugin_event* handle) {
  return *shared(handle);
}

namespace {

// ---- the instance: one set of settings -----------------------------------------------

keel_status create_instance(const keel_instance_settings* settings,
                            keel_plugin_instance** out_instance) {
  return kit::guard([&]() -> keel_status {
    bool conformance = false;
    if (settings != nullptr) {
      const keel_status status = kit::check_extensions(settings->header.next);
      if (status != KEEL_OK) return status;
      // A plugin with an SDK to open would accept "library_folder" here.
      for (uint32_t i = 0; i < settings->count; ++i) {
        if (std::strcmp(settings->keys[i], "conformance") != 0) {
          return kit::fail(KEEL_INVALID_ARGUMENT, "tinychip: setting '%s' is not known",
                           settings->keys[i]);
        }
        conformance = std::strcmp(settings->values[i], "1") == 0;
      }
    }
    *out_instance = reinterpret_cast<keel_plugin_instance*>(new Instance{conformance});
    return KEEL_OK;
  });
}

void destroy_instance(keel_plugin_instance* instance) {
  delete reinterpret_cast<Instance*>(instance);
}

// ---- devices ---------------------------------------------------------------------------

keel_status device_count(keel_plugin_instance*, uint32_t* out_count) {
  *out_count = 1;
  return KEEL_OK;
}

keel_status check_ordinal(uint32_t ordinal) {
  if (ordinal == 0) return KEEL_OK;
  return kit::fail(KEEL_NOT_FOUND, "tinychip: there is no device %u", ordinal);
}

keel_status device_info(keel_plugin_instance*, uint32_t ordinal, keel_device_info* out_info) {
  const keel_status status = check_ordinal(ordinal);
  if (status != KEEL_OK) return status;
  keel_device_info info = {};
  kit::copy_text(info.name, "Tinychip: host memory, a thread a stream");
  kit::copy_text(info.architecture, "tiny1");
  kit::copy_text(info.driver, "none");
  info.type = KEEL_DEVICE_OTHER;
  info.numa_node = -1;
  info.capabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_TIMING |
                      KEEL_CAPABILITY_NOTIFY | KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_MEMORY_INFO |
                      KEEL_CAPABILITY_FILL | KEEL_CAPABILITY_PAGEABLE_ASYNC;
  info.memory_bytes = kMemoryBytes;
  info.alignment = kAlignment;
  info.copy_alignment = 1;
  // |out_info| may have an older, shorter version.
  info.header = out_info->header;
  std::memcpy(out_info, &info, std::min<size_t>(info.header.size, sizeof(info)));
  return KEEL_OK;
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  const keel_status status = check_ordinal(ordinal);
  if (status != KEEL_OK) return status;
  return kit::guard([&] {
    const bool conformance = reinterpret_cast<Instance*>(instance)->conformance;
    *out_device = reinterpret_cast<keel_plugin_device*>(new Device{{}, conformance});
    return keel_status{KEEL_OK};
  });
}

void device_close(keel_plugin_device* device) {
  delete &open_device(device);
}

keel_status device_memory_info(keel_plugin_device* device, uint64_t* out_free,
                               uint64_t* out_total) {
  *out_free = memory_of(device).left();
  *out_total = kMemoryBytes;
  return KEEL_OK;
}

// ---- memory ------------------------------------------------------------------------------

keel_status memory_alloc(keel_plugin_device* device, keel_memory_kind kind, uint64_t size,
                         uint32_t /*usage*/, void** out_pointer) {
  if (kind == KEEL_MEMORY_MANAGED) {
    return kit::fail(KEEL_UNSUPPORTED, "tinychip: there is no managed memory");
  }
  // Pinned memory is host memory, which on this chip is also device memory.
  return kit::guard([&] { return memory_of(device).alloc(size, out_pointer); });
}

keel_status memory_free(keel_plugin_device* device, keel_memory_kind, void* pointer) {
  return kit::guard([&] {
    memory_of(device).free(pointer);
    return keel_status{KEEL_OK};
  });
}

// ---- streams and events --------------------------------------------------------------------

keel_status stream_create(keel_plugin_device* device, int32_t /*priority*/,
                          keel_plugin_stream** out_stream) {
  return kit::guard([&] {
    *out_stream =
        reinterpret_cast<keel_plugin_stream*>(new Stream(open_device(device).conformance));
    return keel_status{KEEL_OK};
  });
}

void stream_destroy(keel_plugin_stream* stream) {
  delete &object(stream);
}

// Any kind: the host and the chip share all memory.
keel_status stream_copy(keel_plugin_stream* stream, keel_copy_kind, void* destination,
                        const void* source, uint64_t size) {
  return kit::guard([&] {
    object(stream).enqueue([=]() -> keel_status {
      std::memcpy(destination, source, size);
      return KEEL_OK;
    });
    return keel_status{KEEL_OK};
  });
}

keel_status stream_fill(keel_plugin_stream* stream, void* destination, const void* pattern,
                        uint32_t pattern_size, uint64_t size) {
  // The caller's pattern may be gone when the stream runs the fill.
  std::array<char, 8> copy{};
  std::memcpy(copy.data(), pattern, pattern_size);
  return kit::guard([&] {
    object(stream).enqueue([=]() -> keel_status {
      for (uint64_t offset = 0; offset < size; offset += pattern_size) {
        std::memcpy(static_cast<char*>(destination) + offset, copy.data(), pattern_size);
      }
      return KEEL_OK;
    });
    return keel_status{KEEL_OK};
  });
}

// Every event measures time, also without KEEL_EVENT_TIMING, at no cost here.
keel_status event_create(keel_plugin_device*, uint32_t /*flags*/, keel_plugin_event** out_event) {
  return kit::guard([&] {
    *out_event = reinterpret_cast<keel_plugin_event*>(new SharedEvent(std::make_shared<Event>()));
    return keel_status{KEEL_OK};
  });
}

void event_destroy(keel_plugin_event* event) {
  delete &shared(event);
}

keel_status event_record(keel_plugin_event* event, keel_plugin_stream* stream) {
  return kit::guard([&] {
    object(stream).record(shared(event));
    return keel_status{KEEL_OK};
  });
}

keel_status event_query(keel_plugin_event* event) {
  return object(event).query();
}

keel_status event_wait(keel_plugin_event* event, int64_t timeout_ns) {
  return object(event).wait(timeout_ns);
}

keel_status event_notify(keel_plugin_event* event, keel_notify_fn fn, void* user) {
  return kit::guard([&] {
    object(event).notify(fn, user);
    return keel_status{KEEL_OK};
  });
}

keel_status stream_wait_event(keel_plugin_stream* stream, keel_plugin_event* event) {
  return kit::guard([&] {
    object(stream).wait_for(shared(event));
    return keel_status{KEEL_OK};
  });
}

keel_status event_elapsed(keel_plugin_event* start, keel_plugin_event* end,
                          uint64_t* out_nanoseconds) {
  const std::chrono::nanoseconds elapsed = object(end).time() - object(start).time();
  *out_nanoseconds = static_cast<uint64_t>(elapsed.count());
  return KEEL_OK;
}

// ---- operators -----------------------------------------------------------------------------

keel_status op_query(keel_plugin_device*, const keel_op_call* call, keel_op_support* out_support) {
  out_support->level = takes(*call) ? KEEL_OP_NATIVE : KEEL_OP_NONE;
  out_support->score = 100;
  out_support->workspace_bytes = 0;
  out_support->kernel = "tinychip";
  return KEEL_OK;
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* /*workspace*/) {
  // The call is borrowed: copy everything that is read later.
  std::array<keel_tensor, 2> inputs{};
  for (uint32_t i = 0; i < call->input_count; ++i) inputs[i] = *call->inputs[i];
  const keel_tensor output = *call->outputs[0];
  const double fill_value =
      call->op == KEEL_OP_FILL ? kit::attributes<keel_op_fill_attributes>(*call).value : 0;
  return kit::guard([&] {
    object(stream).enqueue([op = call->op, fill_value, inputs, output]() -> keel_status {
      run(op, fill_value, inputs.data(), output);
      return KEEL_OK;
    });
    return keel_status{KEEL_OK};
  });
}

// ---- work that fails or waits on demand, for conformance runs -------------------------------

keel_status check_test(keel_plugin_stream* stream) {
  if (object(stream).conformance()) return KEEL_OK;
  return kit::fail(KEEL_FAILED_PRECONDITION, "tinychip: the instance has no conformance=1");
}

keel_status test_fail_work(keel_plugin_stream* stream, keel_status status) {
  if (const keel_status refused = check_test(stream); refused != KEEL_OK) return refused;
  return kit::guard([&] {
    object(stream).enqueue([status] { return status; });
    return keel_status{KEEL_OK};
  });
}

// A hold is an event that the host completes.
keel_status test_hold(keel_plugin_stream* stream, keel_plugin_hold** out_hold) {
  if (const keel_status refused = check_test(stream); refused != KEEL_OK) return refused;
  return kit::guard([&] {
    auto opening = std::make_unique<SharedEvent>(std::make_shared<Event>());
    object(stream).wait_for(*opening);
    *out_hold = reinterpret_cast<keel_plugin_hold*>(opening.release());
    return keel_status{KEEL_OK};
  });
}

void test_release(keel_plugin_hold* hold) {
  const std::unique_ptr<SharedEvent> opening(reinterpret_cast<SharedEvent*>(hold));
  (*opening)->finish(KEEL_OK);
}

// ---- tables: a slot that is left NULL is absent, and core does without it ------------------

constexpr keel_device_table kDeviceTable = {
    .header = kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    .count = device_count,
    .info = device_info,
    .open = device_open,
    .close = device_close,
    .memory_info = device_memory_info,
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
    .query = nullptr,        // core records an event and queries the event
    .synchronize = nullptr,  // core waits for an event
    .copy = stream_copy,
    .copy_peer = nullptr,
    .fill = stream_fill,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .event_notify = event_notify,
    .stream_wait_event = stream_wait_event,
    .event_elapsed = event_elapsed,
};

constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

constexpr keel_test_table kTestTable = {
    .header = kit::header<keel_test_table>(KEEL_STRUCT_TEST_TABLE),
    .fail_work = test_fail_work,
    .hold = test_hold,
    .release = test_release,
    .lose_device = nullptr,
};

}  // namespace

const keel_plugin kPlugin = {
    .header = {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, &kTestTable},
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "tinychip",
    .vendor = "Keel",
    .version = "0.1.0",
    .create_instance = create_instance,
    .destroy_instance = destroy_instance,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = nullptr,
    .op = &kOpTable,
    .ccl = nullptr,
};

}  // namespace tinychip
