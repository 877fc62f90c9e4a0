// SPDX-License-Identifier: Apache-2.0
// Generation-tagged handles: a destroyed or invented handle is detected instead of followed.
#ifndef KEEL_CORE_HANDLE_TABLE_H_
#define KEEL_CORE_HANDLE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/epoch.h"
#include "core/ref_counted.h"
#include "core/validation/leaks.h"
#include "core/validation/validation.h"

namespace keel {

enum class HandleKind : uint8_t {
  kDevice = 1,
  kStream = 2,
  kEvent = 3,
  kGate = 4,
  kComm = 5,
  kModule = 6,
  kKernel = 7
};

// Maps handles to objects of one kind. A handle is
//   kind (8 bits) | slot (24 bits) | generation (32 bits);
// the generation of a slot changes when its object is removed, so a stale handle matches a live one
// only after 2^32 reuses of its slot.
//
// Look-ups take no lock, write no shared memory and never allocate. A slot is reused, and the
// table's reference to the object dropped, only after every look-up that began before remove() has
// ended (core/epoch.h).
template <typename T, HandleKind kKind>
class HandleTable {
 public:
  HandleTable() {
    empty_chunk()[0].id.store(kNoHandle, std::memory_order_relaxed);
    for (auto& chunk : chunks_) chunk.store(&empty_chunk(), std::memory_order_relaxed);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  // No look-up may run during or after destruction.
  ~HandleTable() {
    for (uint64_t id : live_handles()) remove(id);
    while (retired_slots() != 0) reclaim_retired();
  }

  // Returns the new handle; 0 if all 16M slots are taken.
  uint64_t insert(Ref<T> object) {
    std::lock_guard lock(mutex_);
    const uint64_t id = reserve_locked();
    if (id != 0) fill_locked(id, std::move(object));
    return id;
  }
  // Returns a handle that is not live before fill(), for an object that does not exist yet; 0 if
  // all slots are taken. The caller passes the handle to fill() or to give_up().
  uint64_t reserve() {
    std::lock_guard lock(mutex_);
    return reserve_locked();
  }
  // Makes the reserved handle |id| a live one. Does not allocate.
  void fill(uint64_t id, Ref<T> object) {
    std::lock_guard lock(mutex_);
    fill_locked(id, std::move(object));
  }
  // Frees the slot of the reserved handle |id|, which was never live.
  void give_up(uint64_t id) {
    std::lock_guard lock(mutex_);
    Slot& slot = slot_of(id);
    slot.generation = next_generation(slot);
    free_.push_back(slot.index);
  }

  // Returns the object of |id|; NULL if |id| is not a live handle of this table. The pointer is
  // valid until the calling thread's EpochSection ends.
  T* peek(uint64_t id) const {
    const Slot& slot = slot_of(id);
    if (slot.id.load(std::memory_order_acquire) != id) return nullptr;
    // The pointer stays until the slot is reused, and the section prevents reuse: a second look at
    // the id would prove no more.
    T* object = slot.object.load(std::memory_order_relaxed);
    if (object == nullptr) __builtin_unreachable();
    return object;
  }
  // Like peek(), but returns a reference, valid beyond the section.
  Ref<T> find(uint64_t id) const {
    EpochSection section;
    return Ref<T>(peek(id));
  }

  // Removes |id| and returns the object; empty if |id| was not live. Threads that looked the object
  // up before may still use it. With |lazily|, for objects without scarce resources, the table may
  // keep its reference for a while.
  Ref<T> remove(uint64_t id, bool lazily = false) {
    Slot* slot = &slot_of(id);
    Ref<T> object;
    {
      std::lock_guard lock(mutex_);
      if (slot->id.load(std::memory_order_relaxed) != id) return {};
      object = Ref<T>(slot->object.load(std::memory_order_relaxed));
      slot->id.store(0, std::memory_order_relaxed);
      slot->reclaim = &HandleTable::reclaim_slot;
      --live_;
      ++retired_;
    }
    if (validation::enabled()) [[unlikely]] {
      validation::forget_handle(id);
    }
    retire(slot);
    lazily ? reclaim_if_many() : static_cast<void>(reclaim_retired());
    return object;
  }

  std::vector<uint64_t> live_handles() {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> handles;
    for (uint32_t index = kFirstSlot; index < used_; ++index) {
      const uint64_t id = slot_at(index).id.load(std::memory_order_relaxed);
      if (id != 0) handles.push_back(id);
    }
    return handles;
  }

  size_t size() {
    std::lock_guard lock(mutex_);
    return live_;
  }

 private:
  static constexpr uint32_t kChunkSlots = 1024;
  static constexpr uint32_t kChunks = 1 << 14;
  static constexpr uint32_t kIndexMask = (1 << 24) - 1;
  // Handle 0 maps to slot 0, which stays empty. An empty slot has id 0, so slot 0 gets an id unlike
  // any handle.
  static constexpr uint32_t kFirstSlot = 1;
  static constexpr uint64_t kNoHandle = UINT64_MAX;

  struct alignas(64) Slot : Retired {  // aligned so that a shift finds it
    std::atomic<uint64_t> id{0};
    std::atomic<T*> object{nullptr};
    HandleTable* table = nullptr;
    uint32_t index = 0;
    uint32_t generation = 1;
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  // Placeholder for chunks not allocated yet, so that a look-up needs no NULL check. Only the
  // constructor writes to the placeholder.
  static Chunk& empty_chunk() {
    static constinit Chunk chunk;
    return chunk;
  }

  static void reclaim_slot(Retired* retired) noexcept {
    Slot* slot = static_cast<Slot*>(retired);
    HandleTable& table = *slot->table;
    const Ref<T> object = Ref<T>::adopt(slot->object.load(std::memory_order_relaxed));
    std::lock_guard lock(table.mutex_);
    slot->generation = next_generation(*slot);
    table.free_.push_back(slot->index);
    --table.retired_;
  }

  static uint32_t next_generation(const Slot& slot) {
    return slot.generation == UINT32_MAX ? 1 : slot.generation + 1;
  }

  uint64_t reserve_locked() {
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunks * kChunkSlots) return 0;
      auto& chunk = chunks_[used_ / kChunkSlots];
      if (chunk.load(std::memory_order_relaxed) == &empty_chunk()) {
        free_.reserve(used_ + kChunkSlots);  // so that returning a slot never allocates
        storage_.push_back(std::make_unique<Chunk>());
        if (used_ == kFirstSlot) (*storage_[0])[0].id.store(kNoHandle, std::memory_order_relaxed);
        chunk.store(storage_.back().get(), std::memory_order_release);
      }
      index = used_++;
    }
    Slot& slot = slot_at(index);
    slot.table = this;
    slot.index = index;
    return static_cast<uint64_t>(kKind) << 56 | static_cast<uint64_t>(index) << 32 |
           slot.generation;
  }
  void fill_locked(uint64_t id, Ref<T> object) {
    Slot& slot = slot_of(id);
    slot.object.store(object.detach(), std::memory_order_relaxed);
    slot.id.store(id, std::memory_order_release);
    ++live_;
    if (validation::enabled()) [[unlikely]] {
      validation::note_handle(id);
    }
  }

  Slot& slot_of(uint64_t id) const { return slot_at(static_cast<uint32_t>(id >> 32) & kIndexMask); }
  Slot& slot_at(uint32_t index) const {
    Chunk& chunk = *chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk[index % kChunkSlots];
  }
  size_t retired_slots() {
    std::lock_guard lock(mutex_);
    return retired_;
  }

  std::mutex mutex_;  // guards insert, remove and the return of slots
  std::array<std::atomic<Chunk*>, kChunks> chunks_;
  std::vector<std::unique_ptr<Chunk>> storage_;
  std::vector<uint32_t> free_;
  uint32_t used_ = kFirstSlot;
  size_t live_ = 0;
  size_t retired_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_HANDLE_TABLE_H_
