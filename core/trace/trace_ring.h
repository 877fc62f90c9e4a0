// SPDX-License-Identifier: Apache-2.0
// A bounded queue from any number of threads to one.
#ifndef KEEL_CORE_TRACE_TRACE_RING_H_
#define KEEL_CORE_TRACE_TRACE_RING_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>

namespace keel {

// Neither side ever waits: a push into a full ring fails. Each slot carries the number of the push
// or pop that may use the slot next, so producers contend only in one compare-and-swap.
template <typename T>
class TraceRing {
 public:
  // |size|: a power of two.
  explicit TraceRing(uint64_t size) : mask_(size - 1), slots_(new Slot[size]) {
    for (uint64_t i = 0; i < size; ++i) slots_[i].turn.store(i, std::memory_order_relaxed);
  }

  uint64_t capacity() const { return mask_ + 1; }
  // Exact only while no thread pushes; otherwise too large by at most the number of concurrent
  // pushes, never too small.
  uint64_t size() const {
    const uint64_t popped = popped_.load(std::memory_order_acquire);
    return pushed_.load(std::memory_order_relaxed) - popped;
  }

  bool push(T&& value) {
    uint64_t at = pushed_.load(std::memory_order_relaxed);
    while (true) {
      Slot& slot = slots_[at & mask_];
      const uint64_t turn = slot.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (!pushed_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        slot.value = std::move(value);
        slot.turn.store(at + 1, std::memory_order_release);
        return true;
      }
      if (turn < at) return false;  // the slot's value was not popped yet
      at = pushed_.load(std::memory_order_relaxed);
    }
  }

  // Called by the consumer only.
  bool pop(T* out_value) {
    const uint64_t at = popped_.load(std::memory_order_relaxed);
    Slot& slot = slots_[at & mask_];
    if (slot.turn.load(std::memory_order_acquire) != at + 1) return false;
    *out_value = std::move(slot.value);
    slot.value = T();
    slot.turn.store(at + mask_ + 1, std::memory_order_release);
    popped_.store(at + 1, std::memory_order_release);  // for size(): publishes earlier pushes too
    return true;
  }

 private:
  struct Slot {
    std::atomic<uint64_t> turn{0};
    T value;
  };
  const uint64_t mask_;
  const std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint64_t> pushed_{0};
  alignas(64) std::atomic<uint64_t> popped_{0};
};

}  // namespace keel

#endif  // KEEL_CORE_TRACE_TRACE_RING_H_
