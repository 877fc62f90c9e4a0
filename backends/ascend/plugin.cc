// SPDX-License-Identifier: Apache-2.0
// Keel on Ascend NPUs, through the ACL runtime, HCCL and aclnn, opened at run time.
//
// Mapping of the slots (docs/abi-coverage.md lists the calls; docs/vendors/ascend.md says what was
// never seen on a chip):
//
// Devices are opened as their default context, so that a framework shares pointers and streams.
// Every call makes that context current on its thread and restores the previous one.
//
// Memory: aclrtMalloc and aclrtMallocHost. Host memory is registered once for all devices.
//
// Streams stop after a failure. Waits with a deadline and notifications are absent: core polls
// events, which are of aclrtCreateEventExWithFlag and need no reset.
//
// Copies name the size of their destination. Only pinned memory may be accessed after the call, so
// pageable memory goes through pinned blocks that a host function on the stream gives back. A copy
// within a device between addresses that are not multiples of 64 is an operator.
//
// Collectives: HCCL, with reductions asked for by dtype. HCCL has no abort: core gives up the
// stream of a collective that hangs, and reports the device lost.
//
// Operators: the two phases of aclnn, with a workspace of the stream and a cache of executors; see
// operator_calls.h. Whatever aclnn does not compute exactly as Keel defines it goes to core's
// fallback.
//
// Settings: "library_folder", the folder of libascendcl.so and the libraries beside it; default
// KEEL_ASCEND_LIBRARY_FOLDER.
//
// Not offered: copies between devices (ACL's copies name addresses, not devices), export of memory,
// fills with patterns of more than a byte, kernels of the caller, native gates, health.
#include <keel/abi.h>

#include <cstring>
#include <keel/plugin/slots.hpp>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <string>

#include "backends/ascend/communicator.h"
#include "backends/ascend/device.h"
#include "backends/ascend/event.h"
#include "backends/ascend/instance.h"
#include "backends/ascend/ops.h"
#include "backends/ascend/stream.h"

namespace keel::ascend {
namespace {

struct Handles {
  static Instance& object(keel_plugin_instance* handle) {
    return *reinterpret_cast<Instance*>(handle);
  }
  static Device& object(keel_plugin_device* handle) { return *reinterpret_cast<Device*>(handle); }
  static Stream& object(keel_plugin_stream* handle) { return *reinterpret_cast<Stream*>(handle); }
  static Event& object(keel_plugin_event* handle) { return *reinterpret_cast<Event*>(handle); }
  static Communicator& object(keel_plugin_comm* handle) {
    return *reinterpret_cast<Communicator*>(handle);
  }
};
using Slots = kit::Slots<Handles>;

template <typename Handle>
auto& object(Handle* handle) {
  return Handles::object(handle);
}

// ---- instance and device -------------------------------------------------------

keel_status device_count(keel_plugin_instance* instance, uint32_t* out_count) {
  return kit::guard([&] {
    const Sdk& sdk = object(instance).sdk();
    *out_count = sdk.device_count();
    if (*out_count != 0) return keel_status{KEEL_OK};
    return kit::fail(KEEL_OK, "%s", sdk.reason().c_str());
  });
}

keel_status device_open(keel_plugin_instance* instance, uint32_t ordinal,
                        keel_plugin_device** out_device) {
  return kit::guard([&] {
    std::unique_ptr<Device> device;
    return kit::give(Device::open(object(instance).sdk(), ordinal, &device), &device, out_device);
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
    .health = nullptr,
    .native_handle = device_native_handle,
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

constexpr keel_stream_table kStreamTable = {
    .header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    .create = Slots::create<Stream, &Stream::create>,
    .destroy = Slots::destroy<keel_plugin_stream>,
    .wrap = stream_wrap,
    .unwrap = stream_unwrap,
    .query = Slots::call<&Stream::query>,
    .synchronize = nullptr,
    .copy = Slots::call<&Stream::copy>,
    .copy_peer = nullptr,
    .fill = Slots::call<&Stream::fill>,
    .gate_create = nullptr,
    .gate_destroy = nullptr,
    .gate_open = nullptr,
    .stream_wait_gate = nullptr,
    .event_create = Slots::create<Event, &Event::create>,
    .event_destroy = Slots::destroy<keel_plugin_event>,
    .event_record = Slots::call<&Event::record>,
    .event_query = Slots::call<&Event::query>,
    .event_wait = nullptr,
    .event_notify = nullptr,
    .stream_wait_event = Slots::call_on_second<&Event::hold_back>,
    .event_elapsed = Slots::call_on_second<&Event::elapsed_since>,
};

// ---- operators ---------------------------------------------------------------------

keel_status op_query(keel_plugin_device* device, const keel_op_call* call,
                     keel_op_support* out_support) {
  return kit::guard([&]() -> keel_status {
    out_support->level = KEEL_OP_NONE;
    out_support->score = 0;
    out_support->workspace_bytes = 0;
    out_support->kernel = nullptr;
    const Op* const op = find_op(object(device), *call);
    if (op == nullptr) return KEEL_OK;
    out_support->level = op->level;
    out_support->score = 100;
    out_support->workspace_bytes = op->workspace == nullptr ? 0 : op->workspace(*call);
    out_support->kernel = op->kernel;
    return KEEL_OK;
  });
}

keel_status op_run(keel_plugin_stream* stream, const keel_op_call* call, void* workspace) {
  return kit::guard([&]() -> keel_status {
    const Op* const op = find_op(object(stream).device(), *call);
    if (op == nullptr) {
      return kit::fail(KEEL_UNSUPPORTED, "ascend: no operator of aclnn for this call of op %u",
                       call->op);
    }
    if (is_empty(*call)) return KEEL_OK;
    return op->run(object(stream).operators(), *call, Temporaries(workspace));
  });
}

constexpr keel_op_table kOpTable = {
    .header = kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    .query = op_query,
    .run = op_run,
};

// ---- collectives -------------------------------------------------------------------

// Returns KEEL_UNSUPPORTED, with the reason, if HCCL is not usable.
keel_status find_collectives(const Sdk& sdk) {
  if (sdk.no_collectives().empty()) return KEEL_OK;
  return kit::fail(KEEL_UNSUPPORTED, "ascend: %s", sdk.no_collectives().c_str());
}

keel_status ccl_capability(keel_plugin_instance* instance, keel_collective collective,
                           keel_dtype dtype, keel_reduction reduction) {
  return kit::guard([&] {
    const Sdk& sdk = object(instance).sdk();
    const keel_status found = find_collectives(sdk);
    if (found != KEEL_OK) return found;
    return can_run(sdk, collective, dtype, reduction) ? keel_status{KEEL_OK}
                                                      : keel_status{KEEL_UNSUPPORTED};
  });
}

keel_status ccl_unique_id(keel_plugin_device* device, void* out_id, uint64_t* in_out_size) {
  return kit::guard([&] {
    Device& self = object(device);
    const keel_status found = find_collectives(self.sdk());
    if (found != KEEL_OK) return found;
    const uint64_t room = *in_out_size;
    *in_out_size = sizeof(HcclRootInfo);
    if (room < sizeof(HcclRootInfo)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "ascend: an id has %zu bytes, there is room for %llu",
                       sizeof(HcclRootInfo), static_cast<unsigned long long>(room));
    }
    auto info = std::make_unique<HcclRootInfo>();
    HcclResult result = HCCL_SUCCESS;
    const keel_status called = self.call("HcclGetRootInfo", [&](const Functions& hccl) {
      result = hccl.HcclGetRootInfo(info.get());
      return aclError{ACL_SUCCESS};
    });
    if (called != KEEL_OK) return called;
    if (result != HCCL_SUCCESS) {
      return kit::fail(status_of(result), "ascend: %s",
                       self.sdk().text_of("HcclGetRootInfo", result).c_str());
    }
    std::memcpy(out_id, info.get(), sizeof(*info));
    return keel_status{KEEL_OK};
  });
}

// HCCL has no deadline for the ranks to come.
keel_status ccl_init_rank(keel_plugin_device* device, const void* id, uint64_t id_size,
                          int32_t rank, int32_t world, int64_t /*timeout_ns*/,
                          keel_plugin_comm** out_comm) {
  return kit::guard([&] {
    const keel_status found = find_collectives(object(device).sdk());
    if (found != KEEL_OK) return found;
    auto info = std::make_unique<HcclRootInfo>();
    if (id_size != sizeof(*info)) {
      return kit::fail(KEEL_INVALID_ARGUMENT, "ascend: the id has %llu bytes, not %zu",
                       static_cast<unsigned long long>(id_size), sizeof(*info));
    }
    std::memcpy(info.get(), id, sizeof(*info));
    std::unique_ptr<Communicator> made;
    return kit::give(Communicator::create(object(device), *info, static_cast<uint32_t>(rank),
                                          static_cast<uint32_t>(world), &made),
                     &made, out_comm);
  });
}

keel_status ccl_run(keel_plugin_comm* comm, keel_plugin_stream* stream, const keel_ccl_call* calls,
                    uint32_t count) {
  return kit::guard([&] { return object(comm).run(object(stream), {calls, count}); });
}

keel_status ccl_info(keel_plugin_instance* instance, keel_ccl_info* out_info) {
  return kit::guard([&] {
    const Sdk& sdk = object(instance).sdk();
    const keel_status found = find_collectives(sdk);
    if (found != KEEL_OK) return found;
    // The library does not say its version; the runtime's, of the same release, stands for it. The
    // chips of one communicator are of one kind.
    const Functions& acl = sdk.functions();
    const char* const soc = acl.aclrtGetSocName == nullptr ? nullptr : acl.aclrtGetSocName();
    const std::string chip = soc == nullptr ? "" : std::string(" on ") + soc;
    kit::copy_text(out_info->library, ("HCCL of " + sdk.version() + chip).c_str());
    out_info->reach = KEEL_CCL_NETWORK;
    return keel_status{KEEL_OK};
  });
}

constexpr keel_ccl_table kCclTable = {
    .header = kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE),
    .capability = ccl_capability,
    .unique_id = ccl_unique_id,
    .init_rank = ccl_init_rank,
    .destroy = Slots::destroy<keel_plugin_comm>,
    .abort = nullptr,
    .async_error = Slots::call<&Communicator::async_error>,
    .run = ccl_run,
    .register_buffer = nullptr,
    .deregister_buffer = nullptr,
    .info = ccl_info,
    .split = nullptr,
};

// ---- the plugin ----------------------------------------------------------------------

const keel_plugin kPlugin = {
    .header = kit::header<keel_plugin>(KEEL_STRUCT_PLUGIN),
    .abi_major = KEEL_ABI_MAJOR,
    .reserved = 0,
    .name = "ascend",
    .vendor = "Keel",
    .version = KEEL_ASCEND_VERSION,
    .create_instance = Slots::create_instance<Instance>,
    .destroy_instance = Slots::destroy<keel_plugin_instance>,
    .device = &kDeviceTable,
    .memory = &kMemoryTable,
    .stream = &kStreamTable,
    .kernel = nullptr,
    .op = &kOpTable,
    .ccl = &kCclTable,
};

}  // namespace
}  // namespace keel::ascend

extern "C" KEEL_EXPORT keel_status keel_plugin_query_v0(const keel_host* host,
                                                        const keel_plugin** out_plugin) {
  if (host == nullptr || out_plugin == nullptr) return KEEL_INVALID_ARGUMENT;
  keel::kit::g_host = host;
  *out_plugin = &keel::ascend::kPlugin;
  return KEEL_OK;
}
