// SPDX-License-Identifier: Apache-2.0
// Streams, copies and fills, checked.
#include <keel/plugin_kit.hpp>

#include "core/status.h"
#include "core/validation/call.h"
#include "core/validation/tables.h"

namespace keel::validation {

Before::Before(CheckedStream& stream) {
  std::lock_guard lock(stream.device->mutex);
  position = stream.timeline->submitted();
  failure = stream.failure;
  was_idle = stream.idle_at == position;
}

void settle(Call& call, CheckedStream& stream, const Before& before, keel_status code) {
  if (code == KEEL_NOT_READY || code == KEEL_TIMED_OUT) return;
  if (code == KEEL_OK && before.failure != KEEL_OK) {
    call.lie("the plugin says KEEL_OK of a stream that failed with {}",
             status_name(before.failure));
  }
  std::lock_guard lock(stream.device->mutex);
  if (code != KEEL_OK) {
    if (stream.failure == KEEL_OK) stream.failure = code;
    stream.told = this_thread();
  }
  stream.timeline->advance(before.position);
}

void Wait::check(Call& call, keel_status code) const {
  const auto waited = std::chrono::steady_clock::now() - started_;
  if (code != KEEL_TIMED_OUT || waited + std::chrono::milliseconds(1) >= timeout_) return;
  call.lie("the plugin gave up after {} ns of {}",
           std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count(), timeout_.count());
}

namespace {

keel_status add_stream(Call& call, const std::shared_ptr<CheckedDevice>& device,
                       keel_plugin_stream* native, bool wrapped, keel_plugin_stream** out_stream) {
  if (native == nullptr) return call.broken("the plugin left *out_stream unset");
  for (const auto& [handle, other] : registry<keel_plugin_stream>().all()) {
    if (other->device == device && other->native == native) {
      return call.broken("the plugin gave a stream that is live already");
    }
  }
  auto stream = std::make_shared<CheckedStream>();
  stream->device = device;
  stream->native = native;
  stream->wrapped = wrapped;
  stream->is_shared = wrapped;
  stream->origin = capture_origin();
  *out_stream = registry<keel_plugin_stream>().insert(std::move(stream));
  return KEEL_OK;
}

keel_status create(keel_plugin_device* handle, int32_t priority, keel_plugin_stream** out_stream) {
  Call call("stream.create", handle, priority, out_stream);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_stream != nullptr, "out_stream is NULL")) {
    return call.refused();
  }
  keel_plugin_stream* native = nullptr;
  const keel_status code =
      call.answer(device->real().stream->create(device->native, priority, &native));
  return code == KEEL_OK ? add_stream(call, device, native, /*wrapped=*/false, out_stream) : code;
}

void destroy(keel_plugin_stream* handle) {
  Call call("stream.destroy", handle);
  std::shared_ptr<CheckedStream> stream;
  if (!call.find(handle, &stream)) return;
  const bool is_done = stream->timeline->is_done(stream->timeline->submitted());
  if (!call.check_state(stream->enqueuer == nullptr, "another thread is enqueueing on it") ||
      !call.check_state(is_done || stream->wrapped || stream->device->lost,
                        "nothing has said that its work is done")) {
    return;
  }
  registry<keel_plugin_stream>().remove(handle);
  for (const auto& [event_handle, event] : registry<keel_plugin_event>().all()) {
    std::lock_guard lock(event->device->mutex);
    if (event->stream == stream) event->stream = nullptr;
  }
  {
    std::lock_guard lock(stream->device->mutex);
    stream->timeline->end();
  }
  stream->real().stream->destroy(stream->native);
}

keel_status wrap(keel_plugin_device* handle, void* native_stream, keel_plugin_stream** out_stream) {
  Call call("stream.wrap", handle, native_stream, out_stream);
  std::shared_ptr<CheckedDevice> device;
  if (!call.find(handle, &device) || !call.check(out_stream != nullptr, "out_stream is NULL")) {
    return call.refused();
  }
  keel_plugin_stream* native = nullptr;
  const keel_status code =
      call.answer(device->real().stream->wrap(device->native, native_stream, &native));
  return code == KEEL_OK ? add_stream(call, device, native, /*wrapped=*/true, out_stream) : code;
}

keel_status unwrap(keel_plugin_stream* handle, void** out_native) {
  Call call("stream.unwrap", handle, out_native);
  std::shared_ptr<CheckedStream> stream;
  if (!call.find(handle, &stream) || !call.check(out_native != nullptr, "out_native is NULL")) {
    return call.refused();
  }
  const keel_status code = call.answer(stream->real().stream->unwrap(stream->native, out_native));
  if (code == KEEL_OK) stream->is_shared = true;
  return code;
}

keel_status query(keel_plugin_stream* handle) {
  Call call("stream.query", handle);
  std::shared_ptr<CheckedStream> stream;
  if (!call.find(handle, &stream)) return call.refused();
  const Before before(*stream);
  const keel_status code =
      call.answer(stream->real().stream->query(stream->native), Call::Answer::kQuery);
  settle(call, *stream, before, code);
  if (code == KEEL_OK) {
    std::lock_guard lock(stream->device->mutex);
    stream->idle_at = before.position;
  }
  // Unless another thread enqueued meanwhile, or is about to, or an unseen user of a shared stream.
  if (code == KEEL_NOT_READY && before.was_idle && stream->enqueuer == nullptr &&
      !stream->is_shared && stream->timeline->submitted() == before.position) {
    call.lie("the plugin says KEEL_NOT_READY of a stream that was done before");
  }
  return code;
}

keel_status synchronize(keel_plugin_stream* handle, int64_t timeout_ns) {
  Call call("stream.synchronize", handle, timeout_ns);
  std::shared_ptr<CheckedStream> stream;
  if (!call.find(handle, &stream) || !call.check(timeout_ns >= 0, "timeout_ns is {}", timeout_ns)) {
    return call.refused();
  }
  const Before before(*stream);
  const Wait wait(timeout_ns);
  const keel_status code = call.answer(
      stream->real().stream->synchronize(stream->native, timeout_ns), Call::Answer::kWait);
  wait.check(call, code);
  settle(call, *stream, before, code);
  return code;
}

bool overlap(const void* a, const void* b, uint64_t size) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return first < second ? second - first < size : first - second < size;
}

keel_status copy(keel_plugin_stream* handle, keel_copy_kind kind, void* destination,
                 const void* source, uint64_t size) {
  Call call("stream.copy", handle, kind, destination, source, size);
  Enqueue enqueue(call, handle);
  if (!enqueue.ok() ||
      !call.check(kind <= KEEL_COPY_DEVICE_TO_DEVICE, "kind {} is no kind of copy", kind) ||
      !call.check(size != 0, "size is 0")) {
    return call.refused();
  }
  CheckedDevice& device = enqueue.device();
  const Range to = {device, kind == KEEL_COPY_DEVICE_TO_HOST ? Space::kHost : Space::kDevice,
                    destination, size, "destination"};
  const Range from = {device, kind == KEEL_COPY_HOST_TO_DEVICE ? Space::kHost : Space::kDevice,
                      source, size, "source"};
  if (!call.check_range(to) || !call.check_range(from) ||
      !call.check(to.space != from.space || !overlap(destination, source, size),
                  "destination {} and source {} overlap in {} bytes", destination, source, size)) {
    return call.refused();
  }
  const keel_status code =
      call.answer(enqueue.table().copy(enqueue.native(), kind, destination, source, size));
  if (code == KEEL_OK) enqueue.done({to, from});
  return code;
}

keel_status copy_peer(keel_plugin_stream* handle, keel_plugin_device* destination_handle,
                      void* destination, keel_plugin_device* source_handle, const void* source,
                      uint64_t size) {
  Call call("stream.copy_peer", handle, destination_handle, destination, source_handle, source,
            size);
  Enqueue enqueue(call, handle);
  if (!enqueue.ok()) return call.refused();
  std::shared_ptr<CheckedDevice> to_device;
  std::shared_ptr<CheckedDevice> from_device;
  if (!call.find(destination_handle, &to_device, "destination_device") ||
      !call.find(source_handle, &from_device, "source_device") ||
      !call.check_slot(enqueue.device().has(KEEL_CAPABILITY_PEER_COPY),
                       "KEEL_CAPABILITY_PEER_COPY") ||
      !call.check(to_device->instance == from_device->instance,
                  "destination_device {} and source_device {} are of two instances",
                  to_device->name, from_device->name) ||
      !call.check(enqueue.stream().device == to_device || enqueue.stream().device == from_device,
                  "stream is of neither device of the copy, {} -> {}", from_device->name,
                  to_device->name) ||
      !call.check(size != 0, "size is 0")) {
    return call.refused();
  }
  const Range to = {*to_device, Space::kDevice, destination, size, "destination"};
  const Range from = {*from_device, Space::kDevice, source, size, "source"};
  if (!call.check_range(to) || !call.check_range(from) ||
      !call.check(to_device != from_device || !overlap(destination, source, size),
                  "destination {} and source {} overlap in {} bytes", destination, source, size)) {
    return call.refused();
  }
  const keel_status code = call.answer(enqueue.table().copy_peer(
      enqueue.native(), to_device->native, destination, from_device->native, source, size));
  if (code == KEEL_OK) enqueue.done({to, from});
  return code;
}

keel_status fill(keel_plugin_stream* handle, void* destination, const void* pattern,
                 uint32_t pattern_size, uint64_t size) {
  Call call("stream.fill", handle, destination, pattern, pattern_size, size);
  Enqueue enqueue(call, handle);
  const bool known_size =
      pattern_size == 1 || pattern_size == 2 || pattern_size == 4 || pattern_size == 8;
  if (!enqueue.ok() || !call.check(pattern != nullptr, "pattern is NULL") ||
      !call.check(known_size, "pattern_size is {}: 1, 2, 4 or 8", pattern_size) ||
      !call.check_slot(pattern_size == 1 || enqueue.device().has(KEEL_CAPABILITY_FILL),
                       "KEEL_CAPABILITY_FILL") ||
      !call.check(size != 0, "size is 0") ||
      !call.check(size % pattern_size == 0, "size {} is no multiple of pattern_size {}", size,
                  pattern_size) ||
      !call.check(reinterpret_cast<uintptr_t>(destination) % pattern_size == 0,
                  "destination {} is not aligned to pattern_size {}", destination, pattern_size)) {
    return call.refused();
  }
  const Range to = {enqueue.device(), Space::kDevice, destination, size, "destination"};
  if (!call.check_range(to)) return call.refused();
  const keel_status code =
      call.answer(enqueue.table().fill(enqueue.native(), destination, pattern, pattern_size, size));
  if (code == KEEL_OK) enqueue.done({to});
  return code;
}

}  // namespace

keel_stream_table checked_stream_table(const keel_stream_table* real) {
  keel_stream_table table = {};
  table.header = kit::header<keel_stream_table>(KEEL_STRUCT_STREAM_TABLE);
  KEEL_CHECKED_SLOT(keel_stream_table, create, create)
  KEEL_CHECKED_SLOT(keel_stream_table, destroy, destroy)
  KEEL_CHECKED_SLOT(keel_stream_table, wrap, wrap)
  KEEL_CHECKED_SLOT(keel_stream_table, unwrap, unwrap)
  KEEL_CHECKED_SLOT(keel_stream_table, query, query)
  KEEL_CHECKED_SLOT(keel_stream_table, synchronize, synchronize)
  KEEL_CHECKED_SLOT(keel_stream_table, copy, copy)
  KEEL_CHECKED_SLOT(keel_stream_table, copy_peer, copy_peer)
  KEEL_CHECKED_SLOT(keel_stream_table, fill, fill)
  add_event_slots(real, &table);
  return table;
}

}  // namespace keel::validation
