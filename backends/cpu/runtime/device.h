// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_DEVICE_H_
#define KEEL_BACKENDS_CPU_RUNTIME_DEVICE_H_

#include <keel/abi.h>

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cpu/runtime/address_space.h"
#include "backends/cpu/runtime/arena.h"
#include "backends/cpu/runtime/event.h"
#include "backends/cpu/runtime/stream.h"
#include "backends/cpu/runtime/thread_pool.h"

namespace keel::cpu {

// Memory of another process, mapped into this device. The device owns the mapping.
struct Import {
  std::pair<uint64_t, uint64_t> object;  // st_dev and st_ino of the memfd
};

// An open device: a core budget, memory, and state that its streams share.
class Device {
 public:
  // |memory_limit| is in bytes, for device and pinned memory together. |conformance|: the
  // instance's work may be made to fail or wait. |register_huge_pages|: memory of the caller
  // becomes huge pages when the caller registers the memory.
  Device(int cores, uint64_t memory_limit, bool guarded, bool conformance = false,
         bool register_huge_pages = false);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ThreadPool& pool() { return pool_; }
  ParkingLot& parking_lot() { return parking_lot_; }
  bool guarded() const { return space_.guarded(); }
  bool conformance() const { return conformance_; }
  bool register_huge_pages() const { return register_huge_pages_; }
  // Returns an event that blocks streams until the caller completes the event. The event lives as
  // long as the device, because no call reports when the last stream has passed the event.
  Event& make_hold();

  keel_status allocate(keel_memory_kind kind, uint64_t size, void** out_pointer);
  keel_status release(keel_memory_kind kind, void* pointer);
  // Free memory is the system's available memory, limited by the device's remaining budget.
  keel_status memory_info(uint64_t* out_free, uint64_t* out_total) const;
  keel_status export_memory(const void* pointer, uint64_t size, keel_export_kind kind,
                            keel_memory_export* out_export);
  // Maps each exported object once, however many of its allocations are imported.
  keel_status import_memory(const keel_memory_export& exported, void** out_pointer,
                            Import** out_import);
  void close_import(Import* import);

  // Host address of a device address.
  template <typename Element>
  Element* to_host(Element* pointer) const {
    return space_.to_host(pointer);
  }
  AddressSpace::Window window() const { return space_.window(); }

  // Enqueue on |stream|, a stream of this device. The addresses are host addresses.
  void copy(Stream& stream, void* destination, const void* source, uint64_t size);
  void fill(Stream& stream, void* destination, const void* pattern, uint32_t pattern_size,
            uint64_t size);

 private:
  struct ImportedObject {
    Mapping mapping;
    uint32_t users = 0;
  };

  AddressSpace space_;
  AddressSpace host_space_;  // for pinned memory: never guarded
  MemoryBudget budget_;
  ArenaPool device_memory_;
  ArenaPool pinned_memory_;
  ThreadPool pool_;
  ParkingLot parking_lot_;
  std::mutex imports_mutex_;
  std::map<std::pair<uint64_t, uint64_t>, ImportedObject> imports_;
  const bool conformance_;
  const bool register_huge_pages_;
  std::mutex holds_mutex_;
  std::deque<Event> holds_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_DEVICE_H_
