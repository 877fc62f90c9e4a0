// SPDX-License-Identifier: Apache-2.0
#include "conformance/claimed_slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "conformance/levels.h"

namespace keel::conformance {

namespace {

struct ClaimedSlot {
  uint64_t capability;
  const char* name;
  bool (*is_there)(const keel_plugin& plugin);
};

#define KEEL_SLOT(capability, table, slot)                                          \
  {                                                                                 \
    KEEL_CAPABILITY_##capability, #table "." #slot, [](const keel_plugin& plugin) { \
      return static_cast<bool>(KEEL_HAS(keel_##table##_table, plugin.table, slot)); \
    }                                                                               \
  }

constexpr ClaimedSlot kSlots[] = {
    KEEL_SLOT(HOST_REGISTER, memory, host_register),
    KEEL_SLOT(HOST_REGISTER, memory, host_unregister),
    KEEL_SLOT(HOST_ALIAS, memory, host_alias),
    KEEL_SLOT(EXPORT, memory, export_memory),
    KEEL_SLOT(EXPORT, memory, import_memory),
    KEEL_SLOT(EXPORT, memory, close_import),
    KEEL_SLOT(PEER_COPY, stream, copy_peer),
    KEEL_SLOT(TIMING, stream, event_elapsed),
    KEEL_SLOT(NOTIFY, stream, event_notify),
    KEEL_SLOT(NATIVE_GATE, stream, gate_create),
    KEEL_SLOT(NATIVE_GATE, stream, gate_destroy),
    KEEL_SLOT(NATIVE_GATE, stream, gate_open),
    KEEL_SLOT(NATIVE_GATE, stream, stream_wait_gate),
    KEEL_SLOT(STREAM_ALLOC, memory, alloc_on_stream),
    KEEL_SLOT(STREAM_ALLOC, memory, free_on_stream),
    KEEL_SLOT(KERNELS, kernel, load),
    KEEL_SLOT(KERNELS, kernel, unload),
    KEEL_SLOT(KERNELS, kernel, find),
    KEEL_SLOT(KERNELS, kernel, launch),
    KEEL_SLOT(OPS, op, query),
    KEEL_SLOT(OPS, op, run),
    KEEL_SLOT(CCL, ccl, capability),
    KEEL_SLOT(CCL, ccl, unique_id),
    KEEL_SLOT(CCL, ccl, init_rank),
    KEEL_SLOT(CCL, ccl, destroy),
    KEEL_SLOT(CCL, ccl, run),
    KEEL_SLOT(CCL, ccl, info),
    KEEL_SLOT(MEMORY_INFO, device, memory_info),
    KEEL_SLOT(FILL, stream, fill),
};

#undef KEEL_SLOT

}  // namespace

bool needs_slots(uint64_t capabilities) {
  return std::any_of(std::begin(kSlots), std::end(kSlots), [&](const ClaimedSlot& slot) {
    return (slot.capability & capabilities) != 0;
  });
}

std::string claims_without_slots(const keel_plugin& plugin, uint64_t capabilities) {
  std::string text;
  uint64_t named = 0;
  for (const ClaimedSlot& slot : kSlots) {
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
