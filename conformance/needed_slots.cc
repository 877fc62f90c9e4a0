// SPDX-License-Identifier: Apache-2.0
#include "conformance/needed_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "conformance/levels.h"

namespace keel::conformance {

namespace {

struct NeededSlot {
  uint64_t capability;  // 0: every plugin needs it
  const char* name;
  bool (*is_there)(const keel_plugin& plugin);
};

#define KEEL_SLOT(capability, table, slot)                                          \
  {                                                                                 \
    capability, #table "." #slot, [](const keel_plugin& plugin) {                   \
      return static_cast<bool>(KEEL_HAS(keel_##table##_table, plugin.table, slot)); \
    }                                                                               \
  }
#define KEEL_REQUIRED(table, slot) KEEL_SLOT(0, table, slot)
#define KEEL_CLAIMED(capability, table, slot) KEEL_SLOT(KEEL_CAPABILITY_##capability, table, slot)

constexpr NeededSlot kSlots[] = {
    KEEL_REQUIRED(device, count),
    KEEL_REQUIRED(device, info),
    KEEL_REQUIRED(device, open),
    KEEL_REQUIRED(device, close),
    KEEL_REQUIRED(memory, alloc),
    KEEL_REQUIRED(memory, free),
    KEEL_REQUIRED(stream, create),
    KEEL_REQUIRED(stream, destroy),
    KEEL_REQUIRED(stream, copy),
    KEEL_REQUIRED(stream, event_create),
    KEEL_REQUIRED(stream, event_destroy),
    KEEL_REQUIRED(stream, event_record),
    KEEL_REQUIRED(stream, event_query),
    KEEL_REQUIRED(stream, stream_wait_event),
    KEEL_CLAIMED(HOST_REGISTER, memory, host_register),
    KEEL_CLAIMED(HOST_REGISTER, memory, host_unregister),
    KEEL_CLAIMED(HOST_ALIAS, memory, host_alias),
    KEEL_CLAIMED(EXPORT, memory, export_memory),
    KEEL_CLAIMED(EXPORT, memory, import_memory),
    KEEL_CLAIMED(EXPORT, memory, close_import),
    KEEL_CLAIMED(PEER_COPY, stream, copy_peer),
    KEEL_CLAIMED(TIMING, stream, event_elapsed),
    KEEL_CLAIMED(NOTIFY, stream, event_notify),
    KEEL_CLAIMED(NATIVE_GATE, stream, gate_create),
    KEEL_CLAIMED(NATIVE_GATE, stream, gate_destroy),
    KEEL_CLAIMED(NATIVE_GATE, stream, gate_open),
    KEEL_CLAIMED(NATIVE_GATE, stream, stream_wait_gate),
    KEEL_CLAIMED(STREAM_ALLOC, memory, alloc_on_stream),
    KEEL_CLAIMED(STREAM_ALLOC, memory, free_on_stream),
    KEEL_CLAIMED(KERNELS, kernel, load),
    KEEL_CLAIMED(KERNELS, kernel, unload),
    KEEL_CLAIMED(KERNELS, kernel, find),
    KEEL_CLAIMED(KERNELS, kernel, launch),
    KEEL_CLAIMED(OPS, op, query),
    KEEL_CLAIMED(OPS, op, run),
    KEEL_CLAIMED(CCL, ccl, capability),
    KEEL_CLAIMED(CCL, ccl, unique_id),
    KEEL_CLAIMED(CCL, ccl, init_rank),
    KEEL_CLAIMED(CCL, ccl, destroy),
    KEEL_CLAIMED(CCL, ccl, run),
    KEEL_CLAIMED(CCL, ccl, info),
    KEEL_CLAIMED(MEMORY_INFO, device, memory_info),
    KEEL_CLAIMED(FILL, stream, fill),
};

#undef KEEL_CLAIMED
#undef KEEL_REQUIRED
#undef KEEL_SLOT

}  // namespace

bool needs_slots(uint64_t capabilities) {
  return std::any_of(std::begin(kSlots), std::end(kSlots),
                     [&](const NeededSlot& slot) { return (slot.capability & capabilities) != 0; });
}

std::string missing_slots(const keel_plugin& plugin) {
  std::string text;
  for (const NeededSlot& slot : kSlots) {
    if (slot.capability != 0 || slot.is_there(plugin)) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", slot.name);
  }
  return text;
}

std::string claims_without_slots(const keel_plugin& plugin, uint64_t capabilities) {
  std::string text;
  uint64_t named = 0;
  for (const NeededSlot& slot : kSlots) {
    if ((slot.capability & capabilities) == 0 || slot.is_there(plugin)) continue;
    if (named == slot.capability) {
      text += fmt::format(", {}", slot.name);
      continue;
    }
    text += fmt::format("{}{} is claimed without {}", text.empty() ? "" : "; ",
                        capability_text(slot.capability), slot.name);
    named = slot.capability;
  }
  return text;
}

}  // namespace keel::conformance
