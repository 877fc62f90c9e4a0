// Generation-tagged handles: a value that was destroyed, or never handed out, is
// recognised instead of followed.
#ifndef KEEL_CORE_HANDLE_TABLE_H_
#define KEEL_CORE_HANDLE_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/ref_counted.h"

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

// Maps handles to objects of one kind. find() takes no lock and never allocates:
// two atomic additions on the slot and one on the object. A handle is
//   kind (8 bits) | slot (24 bits) | generation (32 bits),
// and a slot's generation changes when its object leaves, so a stale handle would
// need 2^32 reuses of its slot to be taken for a live one.
template <typename T, HandleKind kKind>
class HandleTable {
 public:
  // 0 when all 16M slots are taken.
  uint64_t insert(Ref<T> object) {
    std::lock_guard lock(mutex_);
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunks * kChunkSlots) return 0;
      index = used_++;
      auto& chunk = chunks_[index / kChunkSlots];
      if (chunk.load(std::memory_order_relaxed) == nullptr) {
        storage_.push_back(std::make_unique<Chunk>());
        chunk.store(storage_.back().get(), std::memory_order_release);
      }
    }
    Slot& slot = *slot_at(index);
    slot.object = object.detach();
    const uint32_t generation = slot.generation;
    // Whoever looks a stale handle up is between its two additions: their count stays.
    uint64_t word = slot.word.load(std::memory_order_relaxed);
    uint64_t live = 0;
    do {
      live = static_cast<uint64_t>(generation) << 32 | kLive | (word & kReaders);
    } while (!slot.word.compare_exchange_weak(word, live, std::memory_order_release,
                                              std::memory_order_relaxed));
    ++live_;
    return static_cast<uint64_t>(kKind) << 56 | static_cast<uint64_t>(index) << 32 | generation;
  }

  // Empty when |id| is not a live handle of this table.
  Ref<T> find(uint64_t id) {
    Slot* slot = slot_of(id);
    if (slot == nullptr) return {};
    const uint64_t word = slot->word.fetch_add(1, std::memory_order_acquire);
    Ref<T> found;
    if (matches(word, id)) found = Ref<T>(slot->object);
    slot->word.fetch_sub(1, std::memory_order_release);
    return found;
  }

  // The object, no longer reachable by handle; empty when |id| was not live.
  Ref<T> remove(uint64_t id) {
    Slot* slot = slot_of(id);
    if (slot == nullptr) return {};
    std::lock_guard lock(mutex_);
    if (!matches(slot->word.load(std::memory_order_relaxed), id)) return {};
    slot->word.fetch_and(~kLive, std::memory_order_acq_rel);
    // A reader holds the slot for a few instructions, between two atomics.
    while ((slot->word.load(std::memory_order_acquire) & kReaders) != 0) {
    }
    Ref<T> object = Ref<T>::adopt(slot->object);
    slot->object = nullptr;
    slot->generation = slot->generation == UINT32_MAX ? 1 : slot->generation + 1;
    free_.push_back(static_cast<uint32_t>(id >> 32) & kIndexMask);
    --live_;
    return object;
  }

  // The handles that are live now.
  std::vector<uint64_t> live_handles() {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t> handles;
    for (uint32_t index = 0; index < used_; ++index) {
      const Slot& slot = *slot_at(index);
      if ((slot.word.load(std::memory_order_relaxed) & kLive) == 0) continue;
      handles.push_back(static_cast<uint64_t>(kKind) << 56 | static_cast<uint64_t>(index) << 32 |
                        slot.generation);
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
  static constexpr uint64_t kLive = 1ull << 31;
  static constexpr uint64_t kReaders = kLive - 1;

  struct Slot {
    std::atomic<uint64_t> word{0};  // generation (32) | live (1) | readers (31)
    T* object = nullptr;
    uint32_t generation = 1;
  };
  using Chunk = std::array<Slot, kChunkSlots>;

  static bool matches(uint64_t word, uint64_t id) {
    return (word & kLive) != 0 && (word >> 32) == (id & UINT32_MAX);
  }
  Slot* slot_at(uint32_t index) {
    Chunk* chunk = chunks_[index / kChunkSlots].load(std::memory_order_acquire);
    return chunk == nullptr ? nullptr : &(*chunk)[index % kChunkSlots];
  }
  Slot* slot_of(uint64_t id) {
    if (id >> 56 != static_cast<uint64_t>(kKind)) return nullptr;
    return slot_at(static_cast<uint32_t>(id >> 32) & kIndexMask);
  }

  std::mutex mutex_;  // insert and remove
  std::array<std::atomic<Chunk*>, kChunks> chunks_{};
  std::vector<std::unique_ptr<Chunk>> storage_;
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
  size_t live_ = 0;
};

}  // namespace keel

#endif  // KEEL_CORE_HANDLE_TABLE_H_
