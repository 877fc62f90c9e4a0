// SPDX-License-Identifier: Apache-2.0
#include "conformance/silent_plugin.h"

#include <cstdint>
#include <keel/plugin_kit.hpp>

namespace keel::conformance {

namespace {

template <typename... Arguments>
keel_status silent(Arguments...) {
  return KEEL_OK;
}

template <typename Object>
void gone(Object*) {}

constexpr keel_device_table kDevice = {
    kit::header<keel_device_table>(KEEL_STRUCT_DEVICE_TABLE),
    silent,
    silent,
    silent,
    gone,
    silent,
    silent,
    silent,
};

// A fake address for the runner's address arithmetic; never accessed.
void* nowhere() {
  constexpr uintptr_t kNowhere = 1 << 20;
  return reinterpret_cast<void*>(kNowhere);
}

keel_status alloc(keel_plugin_device*, keel_memory_kind, uint64_t, uint32_t, void** out_pointer) {
  *out_pointer = nowhere();
  return KEEL_OK;
}

keel_status alloc_on_stream(keel_plugin_stream*, uint64_t, void** out_pointer) {
  *out_pointer = nowhere();
  return KEEL_OK;
}

// Implements host_register and host_alias.
keel_status give_address(keel_plugin_device*, void*, uint64_t, void** out_address) {
  *out_address = nowhere();
  return KEEL_OK;
}

keel_status import_memory(keel_plugin_device*, const keel_memory_export*, void** out_pointer,
                          keel_plugin_import**) {
  *out_pointer = nowhere();
  return KEEL_OK;
}

constexpr keel_memory_table kMemory = {
    kit::header<keel_memory_table>(KEEL_STRUCT_MEMORY_TABLE),
    alloc,
    silent,  // free
    alloc_on_stream,
    silent,        // free_on_stream
    give_address,  // host_register
    silent,        // host_unregister
    give_address,  // host_alias
    silent,        // export_memory
    import_memory,
    silent,  // close_import
    silent,  // peer_enable
};

constexpr keel_stream_table kStream = {
    kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE),
    silent,  // create
    gone,    // destroy
    silent,  // wrap
    silent,  // unwrap
    silent,  // query
    silent,  // synchronize
    silent,  // copy
    silent,  // copy_peer
    silent,  // fill
    silent,  // gate_create
    gone,    // gate_destroy
    silent,  // gate_open
    silent,  // stream_wait_gate
    silent,  // event_create
    gone,    // event_destroy
    silent,  // event_record
    silent,  // event_query
    silent,  // event_wait
    silent,  // event_notify
    silent,  // stream_wait_event
    silent,  // event_elapsed
};

constexpr keel_kernel_table kKernel = {
    kit::header<keel_kernel_table>(KEEL_STRUCT_KERNEL_TABLE), silent, gone, silent, silent,
};

constexpr keel_op_table kOp = {
    kit::header<keel_op_table>(KEEL_STRUCT_OP_TABLE),
    silent,
    silent,
};

constexpr keel_ccl_table kCcl = {
    kit::header<keel_ccl_table>(KEEL_STRUCT_CCL_TABLE),
    silent,  // capability
    silent,  // unique_id
    silent,  // init_rank
    gone,    // destroy
    silent,  // abort
    silent,  // async_error
    silent,  // run
    silent,  // register_buffer
    silent,  // deregister_buffer
    silent,  // info
    silent,  // split
};

constexpr keel_test_table kTest = {
    kit::header<keel_test_table>(KEEL_STRUCT_TEST_TABLE),
    silent,  // fail_work
    silent,  // hold
    gone,    // release
    silent,  // lose_device
};

constexpr keel_plugin kPlugin = {
    {sizeof(keel_plugin), KEEL_STRUCT_PLUGIN, &kTest},
    KEEL_ABI_MAJOR,
    0,
    "silent",
    "none",
    "0",
    silent,
    gone,
    &kDevice,
    &kMemory,
    &kStream,
    &kKernel,
    &kOp,
    &kCcl,
};

}  // namespace

const keel_plugin& silent_plugin() {
  return kPlugin;
}

}  // namespace keel::conformance
