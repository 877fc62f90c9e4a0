// SPDX-License-Identifier: Apache-2.0
#include "fuzz/random_calls.h"

namespace keel::fuzz {

// ---- streams --------------------------------------------------------------------

void RandomCalls::create_stream() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock || target.stream != 0) return;
  keel_stream created = {};
  const auto priority = static_cast<int32_t>(bytes_->below(5)) - 2;
  check("keel_stream_create", keel_stream_create(target.device, priority, &created));
  target.stream = created.id;
}

void RandomCalls::destroy_stream() {
  Lane& target = lane();
  std::unique_lock lock(target.mutex, std::try_to_lock);
  if (!lock) return;
  const keel_status status = keel_stream_destroy({target.stream.exchange(0)});
  check("keel_stream_destroy", status);
  // Held work was cancelled, other work is short: a timeout means a hang.
  if (status == KEEL_TIMED_OUT) world_.report("keel_stream_destroy", status, keel_last_error());
}

void RandomCalls::query_stream() {
  check("keel_stream_query", keel_stream_query(stream()));
}

void RandomCalls::synchronize_stream() {
  const keel_stream target = stream();
  check("keel_stream_synchronize", keel_stream_synchronize(target, timeout()));
}

void RandomCalls::recover_stream() {
  const keel_stream target = stream();
  check("keel_stream_recover", keel_stream_recover(target, timeout()));
}

// ---- events ---------------------------------------------------------------------

void RandomCalls::create_event() {
  keel_event created = {};
  const uint32_t flags = bytes_->one_in(32) ? bytes_->byte() : bytes_->below(2);
  const keel_status status = keel_event_create(flags, &created);
  check("keel_event_create", status);
  if (status != KEEL_OK) return;
  const uint64_t former = world_.events_[bytes_->below(World::kEvents)].exchange(created.id);
  if (former != 0) check("keel_event_destroy", keel_event_destroy({former}));
}

void RandomCalls::destroy_event() {
  auto& slot = world_.events_[bytes_->below(World::kEvents)];
  check("keel_event_destroy", keel_event_destroy({slot.exchange(0)}));
}

void RandomCalls::record_event() {
  const keel_event recorded = event();
  check("keel_event_record", keel_event_record(recorded, stream()));
}

void RandomCalls::query_event() {
  check("keel_event_query", keel_event_query(event()));
}

void RandomCalls::wait_event() {
  const keel_event waited = event();
  check("keel_event_wait", keel_event_wait(waited, timeout()));
}

void RandomCalls::stream_waits_for_event() {
  const keel_stream waiter = stream();
  check("keel_stream_wait_event", keel_stream_wait_event(waiter, event()));
}

void RandomCalls::elapsed() {
  uint64_t nanoseconds = 0;
  const keel_event start = event();
  check("keel_event_elapsed", keel_event_elapsed(start, event(), &nanoseconds));
}

// ---- gates ----------------------------------------------------------------------

void RandomCalls::create_gate() {
  keel_gate created = {};
  const keel_status status = keel_gate_create(&created);
  check("keel_gate_create", status);
  if (status != KEEL_OK) return;
  const uint64_t former = world_.gates_[bytes_->below(World::kGates)].exchange(created.id);
  if (former != 0) check("keel_gate_destroy", keel_gate_destroy({former}));
}

void RandomCalls::destroy_gate() {
  auto& slot = world_.gates_[bytes_->below(World::kGates)];
  check("keel_gate_destroy", keel_gate_destroy({slot.exchange(0)}));
}

void RandomCalls::open_gate() {
  const keel_gate opened = gate();
  auto with = static_cast<keel_status>(bytes_->usually(KEEL_OK, 4, 40));
  if (with == KEEL_INTERNAL) with = KEEL_CANCELLED;  // KEEL_INTERNAL would count as a fault of Keel
  const std::string why = text(16);
  check("keel_gate_open", keel_gate_open(opened, with, bytes_->one_in(4) ? nullptr : why.c_str()));
}

void RandomCalls::stream_waits_for_gate() {
  const keel_stream waiter = stream();
  check("keel_stream_wait_gate", keel_stream_wait_gate(waiter, gate()));
}

}  // namespace keel::fuzz
