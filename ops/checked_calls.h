// SPDX-License-Identifier: Apache-2.0
// Operator calls that a thread has made before, and of which everything but the memory is known to
// be right: a training step makes the same ones each time.
#ifndef KEEL_OPS_CHECKED_CALLS_H_
#define KEEL_OPS_CHECKED_CALLS_H_

#include <keel/abi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/epoch.h"

namespace keel::ops {

// What check_call() and select_kernel() make of a call follows from what the call holds, from the
// device, and from the custom kernels there are. Where all of these are the same again, so is the
// answer, and a look at the tensors replaces both (docs/decisions/025). Only calls are remembered
// that the device's own plugin runs without a workspace. One a seated thread, which alone uses it;
// 256 calls, 164 KiB.
class CheckedCalls {
 public:
  // Whether |call| was remembered for |device|, and each of its tensors lies within one allocation
  // of device memory by |thread|'s notes. NULL pointers in it are none that was remembered.
  static bool contain(const epoch::Participant& thread, Device& device, const keel_op_call& call) {
    const CheckedCalls* const calls = of_seat_[seat_of(thread)];
    if (calls == nullptr || !can_be_known(call)) return false;
    return calls->places_[place_of(call)].matches(device, *thread.remembered, call);
  }
  // To be taken before a call is checked, for remember().
  static uint64_t generation() { return generation_.load(std::memory_order_acquire); }
  // The calling thread's |call| has passed check_call() since |generation| was taken, and the
  // plugin of |device| runs it. Forgets another in its place. Where the thread has no seat, the
  // call is long or has an empty tensor, or memory is missing, nothing is remembered.
  static void remember(uint64_t generation, Device& device, const keel_op_call& call);
  // All that is remembered, by any thread, holds no more: devices end, or a kernel has come that
  // may be better.
  static void forget_all() { generation_.fetch_add(1, std::memory_order_release); }

 private:
  struct Place {
    bool matches(Device& known_for, const RememberedBlocks& notes, const keel_op_call& call) const;
    // Leaves nothing where the call does not fit, or has an empty tensor.
    void set(uint64_t now, Device& known_for, const keel_op_call& call);

    // Of a tensor the first 32 bytes of its struct, what it spans, shape and strides, inputs before
    // outputs; then the attributes. 7 tensors of 2 axes with 8 attributes fit, or 6 of 3.
    static constexpr size_t kWords = 76;

    uint64_t generation = 0;  // it holds no more once there is another
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
  static size_t seat_of(const epoch::Participant& thread) {
    return static_cast<size_t>(&thread - epoch::g_seats.data());
  }

  static constexpr uint32_t kPlaceBits = 8;
  // Made with a thread's first call, and kept for the next thread with its seat.
  static inline constinit std::array<CheckedCalls*, size_t{1} << epoch::kSeatBits> of_seat_{};
  static inline constinit std::atomic<uint64_t> generation_{1};

  std::array<Place, size_t{1} << kPlaceBits> places_;
};

}  // namespace keel::ops

#endif  // KEEL_OPS_CHECKED_CALLS_H_
