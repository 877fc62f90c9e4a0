// SPDX-License-Identifier: Apache-2.0
#include "conformance/noted_plugin.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/validation/call_notes.h"

namespace keel::conformance {

namespace {

// A function for one slot, |kSlot| of its table.
template <auto kSlot>
struct Noted;

template <typename Table, typename Result, typename... Arguments,
          Result (*Table::*kSlot)(Arguments...)>
struct Noted<kSlot> {
  static inline Result (*real)(Arguments...) = nullptr;
  static inline const char* name = nullptr;

  static Result call(Arguments... arguments) {
    const validation::CallNote note(name, arguments...);
    return real(arguments...);
  }
  // Puts call() into the slot of |table| unless the slot is absent.
  static void take(Table& table, const char* slot) {
    if (table.*kSlot == nullptr) return;
    real = table.*kSlot;
    name = slot;
    table.*kSlot = call;
  }
};

// Returns a copy with the slots that both this program and the plugin know.
template <typename Table>
Table copy_of(const Table& real) {
  Table copy = {};
  const size_t size = std::min<size_t>(real.header.size, sizeof(copy));
  std::memcpy(static_cast<void*>(&copy), &real, size);
  copy.header.size = static_cast<uint32_t>(size);
  return copy;
}

#define KEEL_NOTE(kind, slot) Noted<&keel_##kind##_table::slot>::take(table, #kind "." #slot)

void note_slots(keel_device_table& table) {
  KEEL_NOTE(device, count);
  KEEL_NOTE(device, info);
  KEEL_NOTE(device, open);
  KEEL_NOTE(device, close);
  KEEL_NOTE(device, memory_info);
  KEEL_NOTE(device, health);
  KEEL_NOTE(device, native_handle);
}

void note_slots(keel_memory_table& table) {
  KEEL_NOTE(memory, alloc);
  KEEL_NOTE(memory, free);
  KEEL_NOTE(memory, alloc_on_stream);
  KEEL_NOTE(memory, free_on_stream);
  KEEL_NOTE(memory, host_register);
  KEEL_NOTE(memory, host_unregister);
  KEEL_NOTE(memory, host_alias);
  KEEL_NOTE(memory, export_memory);
  KEEL_NOTE(memory, import_memory);
  KEEL_NOTE(memory, close_import);
  KEEL_NOTE(memory, peer_enable);
}

void note_slots(keel_stream_table& table) {
  KEEL_NOTE(stream, create);
  KEEL_NOTE(stream, destroy);
  KEEL_NOTE(stream, wrap);
  KEEL_NOTE(stream, unwrap);
  KEEL_NOTE(stream, query);
  KEEL_NOTE(stream, synchronize);
  KEEL_NOTE(stream, copy);
  KEEL_NOTE(stream, copy_peer);
  KEEL_NOTE(stream, fill);
  KEEL_NOTE(stream, gate_create);
  KEEL_NOTE(stream, gate_destroy);
  KEEL_NOTE(stream, gate_open);
  KEEL_NOTE(stream, stream_wait_gate);
  KEEL_NOTE(stream, event_create);
  KEEL_NOTE(stream, event_destroy);
  KEEL_NOTE(stream, event_record);
  KEEL_NOTE(stream, event_query);
  KEEL_NOTE(stream, event_wait);
  KEEL_NOTE(stream, event_notify);
  KEEL_NOTE(stream, stream_wait_event);
  KEEL_NOTE(stream, event_elapsed);
}

void note_slots(keel_kernel_table& table) {
  KEEL_NOTE(kernel, load);
  KEEL_NOTE(kernel, unload);
  KEEL_NOTE(kernel, find);
  KEEL_NOTE(kernel, launch);
}

void note_slots(keel_op_table& table) {
  KEEL_NOTE(op, query);
  KEEL_NOTE(op, run);
}

void note_slots(keel_ccl_table& table) {
  KEEL_NOTE(ccl, capability);
  KEEL_NOTE(ccl, unique_id);
  KEEL_NOTE(ccl, init_rank);
  KEEL_NOTE(ccl, destroy);
  KEEL_NOTE(ccl, abort);
  KEEL_NOTE(ccl, async_error);
  KEEL_NOTE(ccl, run);
  KEEL_NOTE(ccl, register_buffer);
  KEEL_NOTE(ccl, deregister_buffer);
  KEEL_NOTE(ccl, info);
  KEEL_NOTE(ccl, split);
}

#undef KEEL_NOTE

// Replaces the table, if there is one, by a noted copy that lives as long as the process.
template <typename Table>
void note_table(const Table*& table) {
  if (table == nullptr) return;
  static Table noted;
  noted = copy_of(*table);
  note_slots(noted);
  table = &noted;
}

}  // namespace

const keel_plugin& noted_plugin(const keel_plugin& real) {
  static keel_plugin noted;
  noted = copy_of(real);
  Noted<&keel_plugin::create_instance>::take(noted, "create_instance");
  Noted<&keel_plugin::destroy_instance>::take(noted, "destroy_instance");
  note_table(noted.device);
  note_table(noted.memory);
  note_table(noted.stream);
  note_table(noted.kernel);
  note_table(noted.op);
  note_table(noted.ccl);
  return noted;
}

}  // namespace keel::conformance
