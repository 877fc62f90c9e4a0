// SPDX-License-Identifier: Apache-2.0
// A Vulkan program without Keel: the minimal work of a runtime that runs a kernel and waits for its
// end, and the device's peak arithmetic rate.
#ifndef KEEL_BENCH_RAW_VULKAN_H_
#define KEEL_BENCH_RAW_VULKAN_H_

#include <cstdint>
#include <memory>
#include <string>

namespace keel::bench {

// A separate logical device on the same chip, used by one thread. Failures throw.
class RawVulkan {
 public:
  // Opens the device with the 16 bytes of |uuid|. Returns NULL and the reason if the device is
  // absent or the build has no Vulkan.
  static std::unique_ptr<RawVulkan> open(const uint8_t* uuid, std::string* out_reason);
  virtual ~RawVulkan() = default;

  // Begins a command buffer, records a dispatch over 64 floats with push constants and the barrier
  // for host reads, submits the buffer with a timeline signal and waits for the signal.
  virtual void record_dispatch_and_wait() = 0;
  // Submits a copy of the dispatch recorded in advance, and waits. A runtime cannot record in
  // advance when calls arrive singly.
  virtual void submit_dispatch_and_wait() = 0;
  // Submits no commands, and waits.
  virtual void submit_nothing_and_wait() = 0;
  // Runs chains of multiply-adds on all cores.
  virtual void multiply_add_and_wait() = 0;
  // Floating-point operations of one multiply_add_and_wait().
  virtual double multiply_add_operations() const = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_RAW_VULKAN_H_
