// SPDX-License-Identifier: Apache-2.0
// Per-thread cache of validated operator calls. A training step repeats the same calls, so only the
// memory of a cached call needs a new check.
#ifndef KEEL_OPS_CALL_CACHE_H_
#define KEEL_OPS_CALL_CACHE_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/epoch.h"

namespace keel::ops {

// check_call() and select_kernel() depend only on the content of the call, the device, and the
// registered custom kernels. If all three are unchanged, the result is unchanged, and a comparison
// of the tensors replaces both functions (docs/decisions/025). Caches only calls that the device's
// own plugin runs without a workspace. Each thread with a slot owns one cache and is its only user;
// 256 calls, 164 KiB.
class OpCallCache {
 public:
  // Whether |call| is cached for |device|, and |thread|'s lookup cache shows that each tensor lies
  // within one allocation of device memory. A NULL tensor matches only a cached NULL tensor.
  static bool contain(const epoch::EpochRecord& thread, Device& device, const keel_op_call& call) {
    const OpCallCache* const calls = of_slot_[slot_of(thread)];
    if (calls == nullptr || !can_be_known(call)) return false;
    return calls->places_[place_of(call)].matches(device, *thread.lookup_cache, call);
  }
  // Read before a call is checked, and passed to remember().
  static uint64_t generation() { return generation_.load(std::memory_order_acquire); }
  // Caches |call|, which passed check_call() after |generation| was read and which the plugin of
  // |device| runs. Replaces the call in the same cache slot. Caches nothing if the thread has no
  // slot or memory is short; a call that is too long or has an empty tensor empties the cache slot.
  static void remember(uint64_t generation, Device& device, const keel_op_call& call);
  // Invalidates the caches of all threads: a device ends, or a custom kernel was registered that
  // may be better.
  static void forget_all() { generation_.fetch_add(1, std::memory_order_release); }

 private:
  struct Entry {
    bool matches(Device& known_for, const BlockLookupCache& cache, const keel_op_call& call) const;
    // Leaves the slot empty if the call does not fit or has an empty tensor.
    void set(uint64_t now, Device& known_for, const keel_op_call& call);

    // Per tensor the first 32 bytes of its struct, its span, shape and strides, inputs before
    // outputs; then the attributes. 7 tensors of 2 axes with 8 attributes fit, or 6 tensors of 3
    // axes.
    static constexpr size_t kWords = 76;

    uint64_t generation = 0;  // the entry is valid only for this generation
    const Device* device = nullptr;
    keel_op_id op = KEEL_OP_INVALID;
    uint32_t input_count = 0;
    uint32_t output_count = 0;
    uint32_t attribute_count = 0;
    std::array<uint64_t, kWords> words;
  };

  static bool can_be_known(const keel_op_call& call) {
    return call.header.size >= sizeof(call) && call.header.type == KEEL_STRUCT_OP_CALL &&
           call.header.next == nullptr && call.output_count != 0 && call.outputs != nullptr &&
           call.outputs[0] != nullptr && (call.input_count == 0 || call.inputs != nullptr) &&
           (call.attribute_count == 0 || call.attributes != nullptr);
  }
  static size_t place_of(const keel_op_call& call) {
    const auto address = [](const keel_tensor* tensor) {
      return tensor == nullptr ? 0
                               : reinterpret_cast<uintptr_t>(tensor->data) + tensor->byte_offset;
    };
    uint64_t key = call.op + (address(call.outputs[0]) << 6);
    if (call.input_count != 0) key ^= address(call.inputs[0]) << 13 | call.input_count;
    return key * 0x9e3779b97f4a7c15u >> (64 - kPlaceBits);
  }
  static size_t slot_of(const epoch::EpochRecord& thread) {
    return static_cast<size_t>(&thread - epoch::g_slots.data());
  }

  static constexpr uint32_t kPlaceBits = 8;
  // Allocated by a thread's first call; the next thread in the same slot inherits the cache.
  static inline constinit std::array<OpCallCache*, size_t{1} << epoch::kSlotBits> of_slot_{};
  static inline constinit std::atomic<uint64_t> generation_{1};

  std::array<Entry, size_t{1} << kPlaceBits> places_;
};

}  // namespace keel::ops

#endif  // KEEL_OPS_CALL_CACHE_H_
