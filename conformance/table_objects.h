// SPDX-License-Identifier: Apache-2.0
// Building blocks of cases on the plugin's own tables, as harness.h is for cases through keel.h:
// RAII wrappers of the plugin's objects, and checks. Destructors observe nothing.
#ifndef KEEL_CONFORMANCE_TABLE_OBJECTS_H_
#define KEEL_CONFORMANCE_TABLE_OBJECTS_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "conformance/harness.h"
#include "conformance/plugin_device.h"

namespace keel::conformance {

inline const PluginDevice& device_of(const Context& context) {
  return *context.environment.tables;
}

// Observes |status| and fails the case with the plugin's text unless |status| equals |wanted|.
void need_be(keel_status wanted, keel_status status, const std::string& what,
             Where where = Where::current());
// need_be() with KEEL_OK.
inline void need(keel_status status, const std::string& what, Where where = Where::current()) {
  need_be(KEEL_OK, status, what, where);
}

// Read (and observe) and write plugin memory that the host may access. All accesses must use these
// functions, because the memory does not exist in the runner.
std::vector<std::byte> read_host(const void* pointer, uint64_t size,
                                 Where where = Where::current());
void write_host(void* pointer, std::span<const std::byte> bytes);

class TableBuffer {
 public:
  TableBuffer(const Context& context, uint64_t size, keel_memory_kind kind = KEEL_MEMORY_DEVICE,
              uint32_t usage = 0, Where where = Where::current());
  ~TableBuffer();
  TableBuffer(const TableBuffer&) = delete;
  TableBuffer& operator=(const TableBuffer&) = delete;
  TableBuffer(TableBuffer&& other) noexcept;
  TableBuffer& operator=(TableBuffer&&) = delete;

  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(pointer_) + offset; }
  uint64_t size() const { return size_; }

 private:
  const PluginDevice& device_;
  const uint64_t size_;
  const keel_memory_kind kind_;
  void* pointer_ = nullptr;
};

class TableStream;

class TableEvent {
 public:
  explicit TableEvent(const Context& context, uint32_t flags = 0, Where where = Where::current());
  ~TableEvent();
  TableEvent(const TableEvent&) = delete;
  TableEvent& operator=(const TableEvent&) = delete;

  keel_plugin_event* get() const { return event_; }
  void record(const TableStream& stream, Where where = Where::current()) const;
  // Queries the event until the status is not KEEL_NOT_READY or the wait times out.
  keel_status poll(Where where = Where::current()) const;

 private:
  const Context& context_;
  keel_plugin_event* event_ = nullptr;
};

class TableStream {
 public:
  explicit TableStream(const Context& context, Where where = Where::current());
  // Leaks the stream if its work does not end.
  ~TableStream();
  TableStream(const TableStream&) = delete;
  TableStream& operator=(const TableStream&) = delete;

  keel_plugin_stream* get() const { return stream_; }
  // Waits for all enqueued work and returns its status, or KEEL_NOT_READY on a timeout.
  keel_status settle(Where where = Where::current()) const;
  // settle() for destructors.
  keel_status settle_unobserved() const;
  // Fails the case unless device memory at |pointer| holds |wanted|.
  void expect(const void* pointer, std::span<const std::byte> wanted, const std::string& what,
              Where where = Where::current()) const;
  // Enqueues a copy and waits for completion.
  void copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size,
            Where where = Where::current()) const;

 private:
  const keel_stream_table& table() const { return *device_of(context_).plugin().stream; }

  const Context& context_;
  keel_plugin_stream* stream_ = nullptr;
  keel_plugin_event* event_ = nullptr;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_OBJECTS_H_
