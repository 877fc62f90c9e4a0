// SPDX-License-Identifier: Apache-2.0
// Level core, on the plugin's own tables: the required slots, the slots of each capability, and the
// headers of the tables. Other cases show that the slots work.
#include <fmt/format.h>

#include <algorithm>

#include "conformance/levels.h"
#include "conformance/needed_slots.h"
#include "conformance/table_calls.h"

namespace keel::conformance {

namespace {

void required_slots(const Context& context) {
  const std::string missing = observe_text(missing_slots(device_of(context).plugin()));
  check(missing.empty(), "required, and not there: " + missing);
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
    if (capability == 0 || !needs_slots(capability)) continue;
    // run_body() checks the slots.
    add(
        fmt::format("core/tables/slots/{}", capability_text(capability)), [](const Context&) {},
        capability);
  }
}

}  // namespace keel::conformance
