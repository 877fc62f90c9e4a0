// SPDX-License-Identifier: Apache-2.0
// The C functions of streams, events and gates.
#include "core/api.h"
#include "core/observer.h"
#include "core/open_group.h"

using keel::advance_all;
using keel::api_call;
using keel::api_fast_path_call;
using keel::api_nonblocking_call;
using keel::Deadline;
using keel::Event;
using keel::EventRecord;
using keel::failure;
using keel::find_device;
using keel::find_handle;
using keel::find_stream;
using keel::Gate;
using keel::HostCallbacks;
using keel::HostSpan;
using keel::OpenGroup;
using keel::Ref;
using keel::report_answer;
using keel::Runtime;
using keel::Status;
using keel::Stream;
using keel::unknown_handle;
using keel::WakeList;

namespace {

template <typename Found>
Status find_event(keel_event handle, const char* name, Found* out_event) {
  return find_handle(Runtime::get().event_handles(), handle.id, name, out_event);
}

Status find_gate(keel_gate handle, Ref<Gate>* out_gate) {
  return find_handle(Runtime::get().gate_handles(), handle.id, "gate", out_gate);
}

[[gnu::noinline]] keel_status record_in_full(keel_event event, keel_stream stream) {
  return api_nonblocking_call([&]() -> Status {
    Event* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_event(event, "event", &found));
    Stream* recorder = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &recorder));
    Ref<EventRecord> record;
    KEEL_RETURN_IF_ERROR(recorder->record(found->flags(), &record));
    found->set_current(std::move(record));
    return {};
  });
}

[[gnu::noinline]] keel_status query_in_full(keel_event event) {
  return api_nonblocking_call([&]() -> Status {
    Event* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_event(event, "event", &found));
    const Ref<EventRecord> record = found->current();
    if (!record) return {};
    WakeList wake;
    Status status = record->query_by_host(wake);
    advance_all(wake);
    return status;
  });
}

// The deadlines of the operations that a wait for |stream| is for, where |timeout_ns| includes
// them.
int64_t operations_ns(int64_t timeout_ns, const Stream& stream) {
  return timeout_ns == KEEL_TIMEOUT_OPERATIONS ? stream.longest_ns() : 0;
}

[[gnu::noinline]] keel_status synchronize_in_full(keel_stream stream, int64_t timeout_ns) {
  return api_call("keel_stream_synchronize", [&]() -> Status {
    KEEL_RETURN_IF_ERROR(HostCallbacks::check_wait());
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Deadline deadline = Deadline::after(0);
    KEEL_RETURN_IF_ERROR(
        Runtime::get().deadline(timeout_ns, &deadline, operations_ns(timeout_ns, *found)));
    KEEL_RETURN_IF_ERROR(OpenGroup::check_wait());
    const HostSpan span("keel_stream_synchronize");
    return found->synchronize(deadline);
  });
}

template <typename Table, typename Object>
Status new_handle(Table& table, Ref<Object> object, uint64_t* out_id) {
  *out_id = table.insert(std::move(object));
  if (*out_id == 0) return failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
  return {};
}

}  // namespace

// ---- streams -------------------------------------------------------------------

keel_status keel_stream_create(keel_device device, int32_t priority, keel_stream* out_stream) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_stream)
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    Ref<Stream> stream;
    KEEL_RETURN_IF_ERROR(Stream::create(*found, priority, &stream));
    return new_handle(Runtime::get().stream_handles(), std::move(stream), &out_stream->id);
  });
}

keel_status keel_stream_destroy(keel_stream stream) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(HostCallbacks::check_wait());
    Ref<Stream> removed = Runtime::get().stream_handles().remove(stream.id, /*lazily=*/true);
    if (!removed) return unknown_handle(stream.id, "stream");
    const HostSpan span("keel_stream_destroy");
    Status closed = removed->close(Runtime::get().default_deadline());
    removed = nullptr;
    keel::reclaim_all_retired();  // destroys the native stream now, unless an event needs it
    return closed;
  });
}

keel_status keel_stream_wrap(keel_device device, void* native, keel_stream* out_stream) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_stream)
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    Ref<Stream> stream;
    KEEL_RETURN_IF_ERROR(Stream::wrap(*found, native, &stream));
    return new_handle(Runtime::get().stream_handles(), std::move(stream), &out_stream->id);
  });
}

keel_status keel_stream_unwrap(keel_stream stream, void** out_native) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_native)
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    return found->unwrap(out_native);
  });
}

keel_status keel_stream_query(keel_stream stream) {
  return api_call([&]() -> Status {
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    return found->query();
  });
}

keel_status keel_stream_synchronize(keel_stream stream, int64_t timeout_ns) {
  // A small collective is over when its call returns: 20 instructions instead of 360.
  const auto usual = [&](const keel::epoch::EpochRecord&, keel_status*) {
    const Stream* found = Runtime::opened().stream_handles().peek(stream.id);
    return found != nullptr && timeout_ns >= KEEL_TIMEOUT_DEFAULT && found->is_known_quiet() &&
           found->are_records_over() && !OpenGroup::any();
  };
  return api_fast_path_call(usual, [&] { return synchronize_in_full(stream, timeout_ns); });
}

keel_status keel_stream_recover(keel_stream stream, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(HostCallbacks::check_wait());
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Deadline deadline = Deadline::after(0);
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(timeout_ns, &deadline));
    const HostSpan span("keel_stream_recover");
    return found->recover(deadline);
  });
}

keel_status keel_stream_on_done(keel_stream stream, keel_done_fn fn, void* user) {
  return api_call([&]() -> Status {
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    KEEL_REQUIRE(fn)
    Ref<EventRecord> last;
    KEEL_RETURN_IF_ERROR(found->fence(&last));
    return Runtime::get().host_callbacks().add(last, fn, user);
  });
}

// ---- events --------------------------------------------------------------------

keel_status keel_event_create(uint32_t flags, keel_event* out_event) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_event)
    if ((flags & ~static_cast<uint32_t>(KEEL_EVENT_TIMING)) != 0) {
      return failure(KEEL_INVALID_ARGUMENT, "flags {:#x} are not KEEL_EVENT_*", flags);
    }
    return new_handle(Runtime::get().event_handles(), keel::make_ref<Event>(flags), &out_event->id);
  });
}

keel_status keel_event_destroy(keel_event event) {
  return api_call([&]() -> Status {
    const Ref<Event> removed = Runtime::get().event_handles().remove(event.id, /*lazily=*/true);
    if (!removed) return unknown_handle(event.id, "event");
    removed->set_current(nullptr);  // releases the record and its stream at once
    return {};
  });
}

keel_status keel_event_record(keel_event event, keel_stream stream) {
  const auto usual = [&](const keel::epoch::EpochRecord&, keel_status* out_status) {
    Runtime& runtime = Runtime::opened();
    Event* found = runtime.event_handles().peek(event.id);
    if (found == nullptr) return false;
    Stream* recorder = runtime.stream_handles().peek(stream.id);
    if (recorder == nullptr) return false;
    if (!recorder->try_record_fast_path(*found, out_status)) return false;
    if (*out_status != KEEL_OK) [[unlikely]] {
      *out_status = report_answer(recorder->device(), *out_status, "stream.event_record");
    }
    return true;
  };
  return api_fast_path_call(usual, [&] { return record_in_full(event, stream); });
}

keel_status keel_event_query(keel_event event) {
  const auto usual = [&](const keel::epoch::EpochRecord&, keel_status* out_status) {
    const Event* found = Runtime::opened().event_handles().peek(event.id);
    // Observers are told of each query.
    return found != nullptr && !keel::observers::active() && found->try_query_fast_path(out_status);
  };
  return api_fast_path_call(usual, [&] { return query_in_full(event); });
}

keel_status keel_event_wait(keel_event event, int64_t timeout_ns) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(HostCallbacks::check_wait());
    Ref<Event> found;
    KEEL_RETURN_IF_ERROR(find_event(event, "event", &found));
    const Ref<EventRecord> record = found->current();
    Deadline deadline = Deadline::after(0);
    KEEL_RETURN_IF_ERROR(Runtime::get().deadline(
        timeout_ns, &deadline, record ? operations_ns(timeout_ns, record->stream()) : 0));
    KEEL_RETURN_IF_ERROR(OpenGroup::check_wait());
    if (!record) return {};
    const HostSpan span("keel_event_wait");
    if (record->state() == EventRecord::State::kHeld) record->stream().help(deadline);
    return record->wait(deadline);
  });
}

keel_status keel_event_on_done(keel_event event, keel_done_fn fn, void* user) {
  return api_call([&]() -> Status {
    Ref<Event> found;
    KEEL_RETURN_IF_ERROR(find_event(event, "event", &found));
    KEEL_REQUIRE(fn)
    return Runtime::get().host_callbacks().add(found->current(), fn, user);
  });
}

keel_status keel_stream_wait_event(keel_stream stream, keel_event event) {
  return api_nonblocking_call([&]() -> Status {
    Stream* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Event* waited = nullptr;
    KEEL_RETURN_IF_ERROR(find_event(event, "event", &waited));
    const Ref<EventRecord> record = waited->current();
    return record ? found->wait(record) : Status();
  });
}

keel_status keel_event_elapsed(keel_event start, keel_event end, uint64_t* out_nanoseconds) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_nanoseconds)
    Ref<Event> first;
    Ref<Event> last;
    KEEL_RETURN_IF_ERROR(find_event(start, "start", &first));
    KEEL_RETURN_IF_ERROR(find_event(end, "end", &last));
    const Ref<EventRecord> from = first->current();
    const Ref<EventRecord> to = last->current();
    const auto check = [](const Ref<EventRecord>& record, const char* name) -> Status {
      if (!record) return failure(KEEL_FAILED_PRECONDITION, "{} was never recorded", name);
      if (!record->timing()) {
        return failure(KEEL_INVALID_ARGUMENT, "{} was created without KEEL_EVENT_TIMING", name);
      }
      WakeList wake;
      const Status status = record->query_by_host(wake);
      advance_all(wake);
      return status;
    };
    KEEL_RETURN_IF_ERROR(check(from, "start"));
    KEEL_RETURN_IF_ERROR(check(to, "end"));
    if (&from->device() != &to->device()) {
      return failure(KEEL_INVALID_ARGUMENT, "start was recorded on {}, end on {}",
                     from->device().name(), to->device().name());
    }
    if (&from->stream() == &to->stream() && to->order() < from->order()) {
      return failure(KEEL_INVALID_ARGUMENT, "end was recorded before start");
    }
    keel::Device& device = from->device();
    if (!KEEL_HAS(keel_stream_table, device.stream_table(), event_elapsed)) {
      return failure(KEEL_UNSUPPORTED, "{} has no timing events", device.name());
    }
    uint64_t elapsed = 0;
    KEEL_RETURN_IF_ERROR(
        device.check(device.stream_table()->event_elapsed(from->native(), to->native(), &elapsed),
                     "stream.event_elapsed"));
    *out_nanoseconds = elapsed;
    return {};
  });
}

// ---- gates ---------------------------------------------------------------------

keel_status keel_gate_create(keel_gate* out_gate) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_gate)
    return new_handle(Runtime::get().gate_handles(), keel::make_ref<Gate>(), &out_gate->id);
  });
}

keel_status keel_gate_destroy(keel_gate gate) {
  return api_call([&]() -> Status {
    const Ref<Gate> removed = Runtime::get().gate_handles().remove(gate.id, /*lazily=*/true);
    if (!removed) return unknown_handle(gate.id, "gate");
    WakeList wake;
    removed->open({KEEL_CANCELLED, "the gate was destroyed while it was closed"}, wake);
    advance_all(wake);
    return {};
  });
}

keel_status keel_gate_open(keel_gate gate, keel_status status, const char* text) {
  return api_call([&]() -> Status {
    Ref<Gate> found;
    KEEL_RETURN_IF_ERROR(find_gate(gate, &found));
    if (status == KEEL_NOT_READY) {
      return failure(KEEL_INVALID_ARGUMENT, "status KEEL_NOT_READY opens no gate");
    }
    if (!keel::is_status(status)) {
      return failure(KEEL_INVALID_ARGUMENT, "status {} is none of KEEL_*", status);
    }
    Status passed;
    if (status != KEEL_OK && (text == nullptr || *text == '\0')) {
      passed = failure(status, "a gate was opened with {}", keel::status_name(status));
    } else if (status != KEEL_OK) {
      passed = Status(status, text);
    }
    WakeList wake;
    if (!found->open(passed, wake)) {
      return failure(KEEL_FAILED_PRECONDITION, "gate is open already");
    }
    advance_all(wake);
    return {};
  });
}

keel_status keel_stream_wait_gate(keel_stream stream, keel_gate gate) {
  return api_call([&]() -> Status {
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Ref<Gate> waited;
    KEEL_RETURN_IF_ERROR(find_gate(gate, &waited));
    return found->wait(waited);
  });
}
