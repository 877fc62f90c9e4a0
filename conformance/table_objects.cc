// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_objects.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace keel::conformance {

namespace {

// Returns the status of a recorded event; KEEL_NOT_READY on a timeout.
keel_status await(const Context& context, keel_plugin_event* event) {
  return poll_unobserved([&] { return device_of(context).plugin().stream->event_query(event); },
                         context.environment.wait_ns);
}

const char* last_text() {
  return PluginDevice::last_text().c_str();
}

}  // namespace

void need_be(keel_status wanted, keel_status status, const std::string& what, Where where) {
  expect_status(wanted, status, what, last_text, where);
}

std::vector<std::byte> read_host(const void* pointer, uint64_t size, Where where) {
  std::vector<std::byte> bytes(size);
  if (!judging()) std::memcpy(bytes.data(), pointer, size);
  observe_bytes(bytes, where);
  return bytes;
}

void write_host(void* pointer, std::span<const std::byte> bytes) {
  if (!judging()) std::memcpy(pointer, bytes.data(), bytes.size());
}

TableBuffer::TableBuffer(const Context& context, uint64_t size, keel_memory_kind kind,
                         uint32_t usage, Where where)
    : device_(device_of(context)), size_(size), kind_(kind) {
  need(device_.plugin().memory->alloc(device_.get(), kind, size, usage, &pointer_),
       fmt::format("memory.alloc of {} bytes", size), where);
}

TableBuffer::~TableBuffer() {
  if (pointer_ != nullptr) (void)device_.plugin().memory->free(device_.get(), kind_, pointer_);
}

TableBuffer::TableBuffer(TableBuffer&& other) noexcept
    : device_(other.device_),
      size_(other.size_),
      kind_(other.kind_),
      pointer_(std::exchange(other.pointer_, nullptr)) {}

TableEvent::TableEvent(const Context& context, uint32_t flags, Where where) : context_(context) {
  const PluginDevice& device = device_of(context);
  need(device.plugin().stream->event_create(device.get(), flags, &event_), "stream.event_create",
       where);
}

TableEvent::~TableEvent() {
  if (event_ != nullptr) device_of(context_).plugin().stream->event_destroy(event_);
}

void TableEvent::record(const TableStream& stream, Where where) const {
  need(device_of(context_).plugin().stream->event_record(event_, stream.get()),
       "stream.event_record", where);
}

keel_status TableEvent::poll(Where where) const {
  return observe_status(await(context_, event_), where);
}

TableStream::TableStream(const Context& context, Where where) : context_(context) {
  const PluginDevice& device = device_of(context);
  need(table().create(device.get(), /*priority=*/0, &stream_), "stream.create", where);
  const keel_status status = table().event_create(device.get(), /*flags=*/0, &event_);
  if (status != KEEL_OK && stream_ != nullptr) table().destroy(stream_);
  need(status, "stream.event_create", where);
}

TableStream::~TableStream() {
  if (settle_unobserved() == KEEL_NOT_READY) return;
  table().event_destroy(event_);
  table().destroy(stream_);
}

keel_status TableStream::settle_unobserved() const {
  const keel_status status = table().event_record(event_, stream_);
  return status == KEEL_OK ? await(context_, event_) : status;
}

keel_status TableStream::settle(Where where) const {
  return observe_status(settle_unobserved(), where);
}

void TableStream::expect(const void* pointer, std::span<const std::byte> wanted,
                         const std::string& what, Where where) const {
  std::vector<std::byte> got(wanted.size());
  copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), pointer, got.size(), where);
  check_equal(got, wanted, what, where);
}

void TableStream::copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size,
                       Where where) const {
  need(table().copy(stream_, kind, destination, source, size), "stream.copy", where);
  need(settle(where), "a copy", where);
}

}  // namespace keel::conformance
