// SPDX-License-Identifier: Apache-2.0
// Helpers of the suites on a plugin's device and memory tables: accessors of the tables, random
// numbers from the seed, additional instances and devices, and resource counts of the process.
#ifndef KEEL_CONFORMANCE_TABLE_CALLS_H_
#define KEEL_CONFORMANCE_TABLE_CALLS_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/table_objects.h"

namespace keel::conformance {

inline const keel_memory_table& memory_of(const Context& context) {
  return *device_of(context).plugin().memory;
}
inline const keel_stream_table& streams_of(const Context& context) {
  return *device_of(context).plugin().stream;
}
inline uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}
inline void* pointer_to(uint64_t address) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

// The value of an out-parameter before a call that should fail. A failing call leaves the value or
// sets NULL.
inline constexpr uint64_t kUnwritten = 0x5eed5eed0;
// Fails the case if a failed call stored another |pointer| in an out-parameter.
void check_unwritten(const void* pointer, const std::string& what, Where where = Where::current());

// Random numbers that depend only on the seed and the case: identical in the worker and in the
// runner.
class Draws {
 public:
  explicit Draws(const Context& context, uint32_t stream = 0);
  // 0 .. |limit| - 1
  uint64_t below(uint64_t limit) { return engine_() % limit; }
  // Returns |size| random bytes, more cheaply than random_bytes().
  std::vector<std::byte> bytes(uint64_t size);

 private:
  std::mt19937_64 engine_;
};

// One allocation. free() checks the status; after a failure the destructor frees the memory.
class TableBlock {
 public:
  TableBlock(const Context& context, keel_memory_kind kind, uint64_t size,
             Where where = Where::current());
  ~TableBlock();
  TableBlock(TableBlock&& other) noexcept;
  TableBlock& operator=(TableBlock&& other) noexcept;
  TableBlock(const TableBlock&) = delete;
  TableBlock& operator=(const TableBlock&) = delete;

  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(pointer_) + offset; }
  // The observed address.
  uint64_t address() const { return address_; }
  uint64_t size() const { return size_; }
  void free(Where where = Where::current());

 private:
  const Context* context_;
  keel_memory_kind kind_;
  uint64_t size_;
  void* pointer_ = nullptr;
  uint64_t address_ = 0;
};

// A key and a value.
using Setting = std::pair<std::string, std::string>;

// A second instance of the plugin, beside the open one.
class TableInstance {
 public:
  explicit TableInstance(const Context& context, const std::vector<Setting>& settings = {},
                         Where where = Where::current());
  ~TableInstance() { end(); }
  TableInstance(TableInstance&& other) noexcept;
  TableInstance& operator=(TableInstance&&) = delete;
  TableInstance(const TableInstance&) = delete;
  TableInstance& operator=(const TableInstance&) = delete;

  // Calls create_instance only. The strings are destroyed when create() returns.
  static keel_status create(const Context& context, const std::vector<Setting>& settings,
                            const void* next, keel_plugin_instance** out_instance);

  keel_plugin_instance* get() const { return instance_; }
  uint32_t count(Where where = Where::current()) const;
  void end();

 private:
  const Context& context_;
  keel_plugin_instance* instance_ = nullptr;
};

// A device of an instance, with memory and a stream. Corresponds to TableBuffer and TableStream of
// the device under test.
class TableDevice {
 public:
  // Allocates |memory_bytes| of device memory.
  TableDevice(const Context& context, keel_plugin_instance* instance, uint32_t ordinal,
              uint64_t memory_bytes, Where where = Where::current());
  // Leaks the device if its stream's work does not end.
  ~TableDevice();
  TableDevice(const TableDevice&) = delete;
  TableDevice& operator=(const TableDevice&) = delete;

  keel_plugin_device* get() const { return device_; }
  keel_plugin_stream* stream() const { return stream_; }
  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(pointer_) + offset; }
  void write(std::span<const std::byte> bytes, Where where = Where::current()) const;
  // Fails the case unless the memory holds |wanted|.
  void expect(std::span<const std::byte> wanted, const std::string& what,
              Where where = Where::current()) const;
  void settle(Where where = Where::current()) const;

 private:
  void copy(keel_copy_kind kind, void* destination, const void* source, uint64_t size,
            const Where& where) const;

  const Context& context_;
  keel_plugin_device* device_ = nullptr;
  void* pointer_ = nullptr;
  keel_plugin_stream* stream_ = nullptr;
  keel_plugin_event* event_ = nullptr;
};

// Counts the entries of a folder of /proc/self: "fd" for open descriptors, "task" for threads.
uint64_t observe_entries(const char* folder, Where where = Where::current());
// Returns the size of the process's address space in bytes.
uint64_t observe_address_space(Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_CALLS_H_
