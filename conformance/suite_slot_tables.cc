// SPDX-License-Identifier: Apache-2.0
// Level core, on the plugin's own tables: the required slots, the slots of each capability, and the
// headers of the tables. Other cases show that the slots work.
#include <fmt/format.h>

#include <algorithm>

#include "conformance/levels.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

// ---- slots ----------------------------------------------------------------------------

// Collects the names of missing slots.
class Slots {
 public:
  void want(bool has, const char* slot, Where where = Where::current()) {
    if (!observe(has, where)) missing_ += (missing_.empty() ? "" : ", ") + std::string(slot);
  }
  const std::string& missing() const { return missing_; }

 private:
  std::string missing_;
};

void required_slots(const Context& context) {
  const keel_plugin& plugin = device_of(context).plugin();
  Slots slots;
#define KEEL_WANT(table, type, slot) \
  slots.want(KEEL_HAS(type, plugin.table, slot), #table "." #slot)
  KEEL_WANT(device, keel_device_table, count);
  KEEL_WANT(device, keel_device_table, info);
  KEEL_WANT(device, keel_device_table, open);
  KEEL_WANT(device, keel_device_table, close);
  KEEL_WANT(memory, keel_memory_table, alloc);
  KEEL_WANT(memory, keel_memory_table, free);
  KEEL_WANT(stream, keel_stream_table, create);
  KEEL_WANT(stream, keel_stream_table, destroy);
  KEEL_WANT(stream, keel_stream_table, copy);
  KEEL_WANT(stream, keel_stream_table, event_create);
  KEEL_WANT(stream, keel_stream_table, event_destroy);
  KEEL_WANT(stream, keel_stream_table, event_record);
  KEEL_WANT(stream, keel_stream_table, event_query);
  KEEL_WANT(stream, keel_stream_table, stream_wait_event);
  check(slots.missing().empty(), "required, and not there: " + slots.missing());
}

void headers(const Context& context) {
  const keel_plugin& plugin = device_of(context).plugin();
  const auto has_type = [](const keel_header& header, uint32_t type, const char* what) {
    check(observe(header.type) == type, fmt::format("the header of {} has another type", what));
    check(observe(header.size) >= sizeof(keel_header), fmt::format("{} has no size", what));
  };
  has_type(plugin.header, KEEL_STRUCT_PLUGIN, "keel_plugin");
  check(observe(plugin.abi_major) == KEEL_ABI_MAJOR, "abi_major is another");
  has_type(plugin.device->header, KEEL_STRUCT_DEVICE_TABLE, "the device table");
  has_type(plugin.memory->header, KEEL_STRUCT_MEMORY_TABLE, "the memory table");
  has_type(plugin.stream->header, KEEL_STRUCT_STREAM_TABLE, "the stream table");
  if (observe(plugin.kernel != nullptr)) {
    has_type(plugin.kernel->header, KEEL_STRUCT_KERNEL_TABLE, "the kernel table");
  }
  if (observe(plugin.op != nullptr)) {
    has_type(plugin.op->header, KEEL_STRUCT_OP_TABLE, "the op table");
  }
  if (observe(plugin.ccl != nullptr)) {
    has_type(plugin.ccl->header, KEEL_STRUCT_CCL_TABLE, "the ccl table");
  }
  const auto text_of = [](const char* text) { return observe_text(text == nullptr ? "" : text); };
  const std::string name = text_of(plugin.name);
  check(!name.empty() && name[0] >= 'a' && name[0] <= 'z' &&
            std::all_of(name.begin(), name.end(),
                        [](char each) {
                          return (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9') ||
                                 each == '_';
                        }),
        "the plugin's name is not [a-z][a-z0-9_]*: " + name);
  check(!text_of(plugin.vendor).empty(), "the plugin names no vendor");
  check(!text_of(plugin.version).empty(), "the plugin has no version");
}

// Checks the slots of a capability.
void claimed_slots(const Context& context, uint64_t capability) {
  const keel_plugin& plugin = device_of(context).plugin();
  Slots slots;
  switch (capability) {
    case KEEL_CAPABILITY_HOST_REGISTER:
      KEEL_WANT(memory, keel_memory_table, host_register);
      KEEL_WANT(memory, keel_memory_table, host_unregister);
      break;
    case KEEL_CAPABILITY_HOST_ALIAS:
      KEEL_WANT(memory, keel_memory_table, host_alias);
      break;
    case KEEL_CAPABILITY_EXPORT:
      KEEL_WANT(memory, keel_memory_table, export_memory);
      KEEL_WANT(memory, keel_memory_table, import_memory);
      KEEL_WANT(memory, keel_memory_table, close_import);
      break;
    case KEEL_CAPABILITY_PEER_COPY:
      KEEL_WANT(stream, keel_stream_table, copy_peer);
      break;
    case KEEL_CAPABILITY_TIMING:
      KEEL_WANT(stream, keel_stream_table, event_elapsed);
      break;
    case KEEL_CAPABILITY_NOTIFY:
      KEEL_WANT(stream, keel_stream_table, event_notify);
      break;
    case KEEL_CAPABILITY_NATIVE_GATE:
      KEEL_WANT(stream, keel_stream_table, gate_create);
      KEEL_WANT(stream, keel_stream_table, gate_destroy);
      KEEL_WANT(stream, keel_stream_table, gate_open);
      KEEL_WANT(stream, keel_stream_table, stream_wait_gate);
      break;
    case KEEL_CAPABILITY_STREAM_ALLOC:
      KEEL_WANT(memory, keel_memory_table, alloc_on_stream);
      KEEL_WANT(memory, keel_memory_table, free_on_stream);
      break;
    case KEEL_CAPABILITY_KERNELS:
      KEEL_WANT(kernel, keel_kernel_table, load);
      KEEL_WANT(kernel, keel_kernel_table, unload);
      KEEL_WANT(kernel, keel_kernel_table, find);
      KEEL_WANT(kernel, keel_kernel_table, launch);
      break;
    case KEEL_CAPABILITY_OPS:
      KEEL_WANT(op, keel_op_table, query);
      KEEL_WANT(op, keel_op_table, run);
      break;
    case KEEL_CAPABILITY_CCL:
      KEEL_WANT(ccl, keel_ccl_table, capability);
      KEEL_WANT(ccl, keel_ccl_table, unique_id);
      KEEL_WANT(ccl, keel_ccl_table, init_rank);
      KEEL_WANT(ccl, keel_ccl_table, destroy);
      KEEL_WANT(ccl, keel_ccl_table, run);
      KEEL_WANT(ccl, keel_ccl_table, info);
      break;
    case KEEL_CAPABILITY_MEMORY_INFO:
      KEEL_WANT(device, keel_device_table, memory_info);
      break;
    case KEEL_CAPABILITY_FILL:
      KEEL_WANT(stream, keel_stream_table, fill);
      break;
    default:
      break;
  }
#undef KEEL_WANT
  check(slots.missing().empty(),
        fmt::format("{} is claimed without {}", capability_text(capability), slots.missing()));
}

}  // namespace

void add_slot_table_cases(const Environment&, std::vector<Case>* cases) {
  const auto add = [&](const std::string& id, auto body, uint64_t capabilities = 0) {
    cases->push_back({id, capabilities, false, std::move(body)});
  };
  add("core/tables/slots/required", required_slots);
  add("core/tables/slots/headers", headers);
  const uint64_t capabilities = known_capabilities();
  for (uint32_t bit = 0; bit < 64; ++bit) {
    const uint64_t capability = capabilities & (uint64_t{1} << bit);
    constexpr uint64_t kWithoutSlots = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_MANAGED |
                                       KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PRIORITY |
                                       KEEL_CAPABILITY_PAGEABLE_ASYNC;
    if (capability == 0 || (capability & kWithoutSlots) != 0) continue;
    add(
        fmt::format("core/tables/slots/{}", capability_text(capability)),
        [capability](const Context& c) { claimed_slots(c, capability); }, capability);
  }
}

}  // namespace keel::conformance
