// SPDX-License-Identifier: Apache-2.0
// Events and native gates, checked.
#include <keel/plugin_kit.hpp>

#include "core/status.h"
#include "core/validation/call.h"
#include "core/validation/tables.h"
#include "core/validation/validation.h"

namespace keel::validation {

namespace {

using Clock = std::chrono::steady_clock;

// ---- state of events -------------------------------------------------------------

// The last record of an event before the plugin is asked about it.
struct BeforeEvent {
  std::shared_ptr<CheckedStream> stream;
  uint64_t record = 0;
  uint64_t position = 0;
  keel_status outcome = KEEL_NOT_READY;
  bool covered = false;  // later work of a stream that did not fail was done before
};

// Returns false if the event was never recorded, or its stream is gone.
bool look_at(Call& call, CheckedEvent& event, const char* argument, BeforeEvent* out_before) {
  std::lock_guard lock(event.device->mutex);
  if (!call.check_state(event.records != 0, "{} was never recorded", argument) ||
      !call.check_state(event.stream != nullptr, "the stream that {} was recorded on is gone",
                        argument)) {
    return false;
  }
  *out_before = {
      event.stream, event.records, event.position, event.outcome,
      event.stream->failure == KEEL_OK && event.stream->timeline->is_done(event.position)};
  return true;
}

// Enters the plugin's answer about the record in |before|.
void settle(Call& call, CheckedEvent& event, const BeforeEvent& before, keel_status code) {
  if (code == KEEL_NOT_READY || code == KEEL_TIMED_OUT) {
    const bool was_done = before.outcome != KEEL_NOT_READY || before.covered;
    if (was_done && !event.device->lost) {
      call.lie("the plugin says {} of an event that was done before", status_name(code));
    }
    return;
  }
  if (code == KEEL_OK && before.outcome != KEEL_OK && before.outcome != KEEL_NOT_READY) {
    call.lie("the plugin says KEEL_OK of an event that failed with {}",
             status_name(before.outcome));
  }
  std::lock_guard lock(event.device->mutex);
  if (event.records == before.record && event.outcome == KEEL_NOT_READY) event.outcome = code;
  if (code != KEEL_OK) {
    if (before.stream->failure == KEEL_OK) before.stream->failure = code;
    before.stream->told = this_thread();
  }
  before.stream->timeline->advance(before.position);
}

// Returns whether neither the event nor a wait for it may still be in a queue. With the device's
// lock.
bool check_idle(Call& call, CheckedEvent& event) {
  if (event.device->lost) return true;
  std::erase_if(event.waits, [](const Use& wait) { return wait.is_done(); });
  return call.check_state(event.is_done(), "nothing has said that its last record is done") &&
         call.check_state(event.waits.empty(),
                          "nothing has said that the streams that wait for it are past it");
}

// ---- events ------------------------------------------------------------------------

keel_status create(keel_plugin_device* handle, uint32_t flags, keel_plugin_event** out_event) {
  Call call("stream.event_create", handle, flags, out_event);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_event != nullptr, "out_event is NULL") ||
      !call.check((flags & ~uint32_t{KEEL_EVENT_TIMING}) == 0, "flags {:#x} are not KEEL_EVENT_*",
                  flags) ||
      !call.check_slot((flags & KEEL_EVENT_TIMING) == 0 || device->has(KEEL_CAPABILITY_TIMING),
                       "KEEL_CAPABILITY_TIMING")) {
    return call.refused();
  }
  keel_plugin_event* native = nullptr;
  const keel_status code =
      call.answer(device->real().stream->event_create(device->native, flags, &native));
  if (code != KEEL_OK) return code;
  if (native == nullptr) return call.broken("the plugin left *out_event unset");
  auto event = std::make_shared<CheckedEvent>();
  event->device = device;
  event->native = native;
  event->flags = flags;
  event->origin = capture_origin();
  *out_event = registry<keel_plugin_event>().insert(std::move(event));
  return code;
}

void destroy(keel_plugin_event* handle) {
  Call call("stream.event_destroy", handle);
  std::shared_ptr<CheckedEvent> event;
  if (!call.find(handle, &event)) return;
  {
    std::lock_guard lock(event->device->mutex);
    if (!check_idle(call, *event)) return;
    event->stream = nullptr;
  }
  registry<keel_plugin_event>().remove(handle);
  event->real().stream->event_destroy(event->native);
}

keel_status record(keel_plugin_event* handle, keel_plugin_stream* stream_handle) {
  Call call("stream.event_record", handle, stream_handle);
  Enqueue enqueue(call, stream_handle, /*new_work=*/false);
  std::shared_ptr<CheckedEvent> event;
  if (!enqueue.ok() || !call.find(handle, &event) ||
      !call.check(event->device == enqueue.stream().device, "event is of {}, stream of {}",
                  event->device->name, enqueue.device().name)) {
    return call.refused();
  }
  {
    std::lock_guard lock(event->device->mutex);
    if (event->records != 0 && !check_idle(call, *event)) return call.refused();
  }
  const auto recorded_at = Clock::now();
  const keel_status code =
      call.answer(enqueue.table().event_record(event->native, enqueue.native()));
  if (code != KEEL_OK) return code;
  const uint64_t position = enqueue.done();
  std::lock_guard lock(event->device->mutex);
  event->stream = enqueue.shared();
  ++event->records;
  event->position = position;
  event->outcome = KEEL_NOT_READY;
  event->recorded_at = recorded_at;
  event->waits.clear();
  return code;
}

keel_status query(keel_plugin_event* handle) {
  Call call("stream.event_query", handle);
  std::shared_ptr<CheckedEvent> event;
  BeforeEvent before;
  if (!call.find(handle, &event) || !look_at(call, *event, "event", &before)) {
    return call.refused();
  }
  const keel_status code =
      call.answer(event->real().stream->event_query(event->native), Call::Answer::kQuery);
  settle(call, *event, before, code);
  return code;
}

keel_status wait(keel_plugin_event* handle, int64_t timeout_ns) {
  Call call("stream.event_wait", handle, timeout_ns);
  std::shared_ptr<CheckedEvent> event;
  BeforeEvent before;
  if (!call.find(handle, &event) || !look_at(call, *event, "event", &before) ||
      !call.check(timeout_ns >= 0, "timeout_ns is {}", timeout_ns)) {
    return call.refused();
  }
  const Wait clock(timeout_ns);
  const keel_status code =
      call.answer(event->real().stream->event_wait(event->native, timeout_ns), Call::Answer::kWait);
  clock.check(call, code);
  settle(call, *event, before, code);
  return code;
}

void on_notify(void* token, keel_status status) {
  Call call("stream.event_notify", token, status);
  const auto notification = registry<void>().remove(token);
  if (notification == nullptr) {
    call.lie("the plugin made a callback twice, or after its device was closed");
    return;
  }
  CheckedEvent& event = *notification->event;
  status = call.answer(status, Call::Answer::kWait);
  {
    std::lock_guard lock(event.device->mutex);
    if (event.records == notification->record && event.stream != nullptr) {
      if (event.outcome == KEEL_NOT_READY) event.outcome = status;
      if (status != KEEL_OK && event.stream->failure == KEEL_OK) event.stream->failure = status;
      event.stream->timeline->advance(event.position);
    }
  }
  notification->fn(notification->user, status);
}

keel_status notify(keel_plugin_event* handle, keel_notify_fn fn, void* user) {
  Call call("stream.event_notify", handle, fn, user);
  std::shared_ptr<CheckedEvent> event;
  BeforeEvent before;
  if (!call.find(handle, &event) || !look_at(call, *event, "event", &before) ||
      !call.check(fn != nullptr, "fn is NULL") ||
      !call.check_slot(event->device->has(KEEL_CAPABILITY_NOTIFY), "KEEL_CAPABILITY_NOTIFY")) {
    return call.refused();
  }
  auto notification = std::make_shared<Notification>();
  *notification = {event, before.record, fn, user};
  void* const token = registry<void>().insert(std::move(notification));
  const keel_status code =
      call.answer(event->real().stream->event_notify(event->native, &on_notify, token));
  if (code != KEEL_OK && registry<void>().remove(token) == nullptr) {
    call.lie("the plugin returned {}, but made the callback", status_name(code));
  }
  return code;
}

keel_status wait_event(keel_plugin_stream* stream_handle, keel_plugin_event* handle) {
  Call call("stream.stream_wait_event", stream_handle, handle);
  Enqueue enqueue(call, stream_handle);
  std::shared_ptr<CheckedEvent> event;
  BeforeEvent before;
  if (!enqueue.ok() || !call.find(handle, &event) ||
      !call.check(event->device == enqueue.stream().device, "event is of {}, stream of {}",
                  event->device->name, enqueue.device().name) ||
      !look_at(call, *event, "event", &before) ||
      !call.check(before.stream != enqueue.shared(), "event was recorded on the same stream")) {
    return call.refused();
  }
  const keel_status code =
      call.answer(enqueue.table().stream_wait_event(enqueue.native(), event->native));
  if (code != KEEL_OK) return code;
  const uint64_t position = enqueue.done();
  std::lock_guard lock(event->device->mutex);
  enqueue.stream().timeline->add_edge(position, before.stream->timeline, before.position);
  std::erase_if(event->waits, [](const Use& wait) { return wait.is_done(); });
  event->waits.push_back({enqueue.stream().timeline, position, "stream.stream_wait_event"});
  return code;
}

bool check_timing(Call& call, const CheckedEvent& event, const BeforeEvent& before,
                  const char* argument) {
  return call.check((event.flags & KEEL_EVENT_TIMING) != 0, "{} is no timing event", argument) &&
         call.check_state(before.outcome == KEEL_OK || before.covered,
                          "nothing has said that {} is done", argument);
}

keel_status elapsed(keel_plugin_event* start_handle, keel_plugin_event* end_handle,
                    uint64_t* out_nanoseconds) {
  Call call("stream.event_elapsed", start_handle, end_handle, out_nanoseconds);
  std::shared_ptr<CheckedEvent> start;
  std::shared_ptr<CheckedEvent> end;
  BeforeEvent first;
  BeforeEvent last;
  if (!call.find(start_handle, &start, "start") || !call.find(end_handle, &end, "end") ||
      !call.check(out_nanoseconds != nullptr, "out_nanoseconds is NULL") ||
      !call.check(start->device == end->device, "start is of {}, end of {}", start->device->name,
                  end->device->name) ||
      !look_at(call, *start, "start", &first) || !look_at(call, *end, "end", &last) ||
      !check_timing(call, *start, first, "start") || !check_timing(call, *end, last, "end") ||
      !call.check(first.stream != last.stream || first.position <= last.position,
                  "end was recorded before start")) {
    return call.refused();
  }
  uint64_t nanoseconds = UINT64_MAX;
  const keel_status code =
      call.answer(start->real().stream->event_elapsed(start->native, end->native, &nanoseconds));
  if (code != KEEL_OK) return code;
  if (nanoseconds == UINT64_MAX) return call.broken("the plugin left *out_nanoseconds unset");
  // Both records lie between the record of start and now. Twice the time and a second allow for
  // device clocks of a different rate; a clock running backwards gives centuries.
  Clock::time_point recorded_at;
  {
    std::lock_guard lock(start->device->mutex);
    recorded_at = start->recorded_at;
  }
  const auto possible = std::chrono::nanoseconds(Clock::now() - recorded_at).count();
  if (first.stream == last.stream &&
      nanoseconds > 2 * static_cast<uint64_t>(possible) + 1'000'000'000) {
    call.lie(
        "the plugin says that {} ns ({} as a signed number) lie between two events that were "
        "recorded within {} ns",
        nanoseconds, static_cast<int64_t>(nanoseconds), possible);
  }
  *out_nanoseconds = nanoseconds;
  return code;
}

// ---- native gates -------------------------------------------------------------------

keel_status gate_create(keel_plugin_device* handle, keel_plugin_gate** out_gate) {
  Call call("stream.gate_create", handle, out_gate);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_gate != nullptr, "out_gate is NULL") ||
      !call.check_slot(device->has(KEEL_CAPABILITY_NATIVE_GATE), "KEEL_CAPABILITY_NATIVE_GATE")) {
    return call.refused();
  }
  keel_plugin_gate* native = nullptr;
  const keel_status code = call.answer(device->real().stream->gate_create(device->native, &native));
  if (code != KEEL_OK) return code;
  if (native == nullptr) return call.broken("the plugin left *out_gate unset");
  auto gate = std::make_shared<CheckedGate>();
  gate->device = device;
  gate->native = native;
  gate->origin = capture_origin();
  *out_gate = registry<keel_plugin_gate>().insert(std::move(gate));
  return code;
}

void gate_destroy(keel_plugin_gate* handle) {
  Call call("stream.gate_destroy", handle);
  std::shared_ptr<CheckedGate> gate;
  if (!call.find(handle, &gate)) return;
  {
    std::lock_guard lock(gate->device->mutex);
    std::erase_if(gate->waits, [](const Use& wait) { return wait.is_done(); });
    if (!call.check_state(gate->waits.empty() || gate->device->lost,
                          "nothing has said that the streams that wait for it are past it")) {
      return;
    }
  }
  registry<keel_plugin_gate>().remove(handle);
  gate->real().stream->gate_destroy(gate->native);
}

keel_status gate_open(keel_plugin_gate* handle) {
  Call call("stream.gate_open", handle);
  std::shared_ptr<CheckedGate> gate;
  if (!call.find(handle, &gate)) return call.refused();
  {
    std::lock_guard lock(gate->device->mutex);
    if (!call.check_state(!gate->open, "the gate is open already")) return call.refused();
    gate->open = true;
  }
  const keel_status code = call.answer(gate->real().stream->gate_open(gate->native));
  if (code == KEEL_OK) return code;
  std::lock_guard lock(gate->device->mutex);
  gate->open = false;
  return code;
}

keel_status wait_gate(keel_plugin_stream* stream_handle, keel_plugin_gate* handle) {
  Call call("stream.stream_wait_gate", stream_handle, handle);
  Enqueue enqueue(call, stream_handle);
  std::shared_ptr<CheckedGate> gate;
  if (!enqueue.ok() || !call.find(handle, &gate) ||
      !call.check(gate->device == enqueue.stream().device, "gate is of {}, stream of {}",
                  gate->device->name, enqueue.device().name)) {
    return call.refused();
  }
  const keel_status code =
      call.answer(enqueue.table().stream_wait_gate(enqueue.native(), gate->native));
  if (code != KEEL_OK) return code;
  const uint64_t position = enqueue.done();
  std::lock_guard lock(gate->device->mutex);
  gate->waits.push_back({enqueue.stream().timeline, position, "stream.stream_wait_gate"});
  return code;
}

}  // namespace

void add_event_slots(const keel_stream_table* real, keel_stream_table* out_table) {
  keel_stream_table& table = *out_table;
  KEEL_CHECKED_SLOT(keel_stream_table, event_create, create)
  KEEL_CHECKED_SLOT(keel_stream_table, event_destroy, destroy)
  KEEL_CHECKED_SLOT(keel_stream_table, event_record, record)
  KEEL_CHECKED_SLOT(keel_stream_table, event_query, query)
  KEEL_CHECKED_SLOT(keel_stream_table, event_wait, wait)
  KEEL_CHECKED_SLOT(keel_stream_table, event_notify, notify)
  KEEL_CHECKED_SLOT(keel_stream_table, stream_wait_event, wait_event)
  KEEL_CHECKED_SLOT(keel_stream_table, event_elapsed, elapsed)
  KEEL_CHECKED_SLOT(keel_stream_table, gate_create, gate_create)
  KEEL_CHECKED_SLOT(keel_stream_table, gate_destroy, gate_destroy)
  KEEL_CHECKED_SLOT(keel_stream_table, gate_open, gate_open)
  KEEL_CHECKED_SLOT(keel_stream_table, stream_wait_gate, wait_gate)
}

}  // namespace keel::validation
