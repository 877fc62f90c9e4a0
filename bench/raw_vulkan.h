// SPDX-License-Identifier: Apache-2.0
// A Vulkan program without Keel: the minimal work of a runtime that runs a kernel and waits for it,
// and the device's peak arithmetic rate.
#ifndef KEEL_BENCH_RAW_VULKAN_H_
#define KEEL_BENCH_RAW_VULKAN_H_

#include <cstdint>
#include <memory>
#include <string>

namespace keel::bench {

// A separate logical device on the same chip, used by one thread. Failures throw.
class RawVulkan {
 public:
  // Opens the device with the 16 bytes of |uuid|. Returns NULL and the reason if there is no such
  // device or the build has no Vulkan.
  static std::unique_ptr<RawVulkan> open(const uint8_t* uuid, std::string* out_reason);
  virtual ~RawVulkan() = default;

  // Begins a command buffer, records one dispatch over 64 floats with its push constants and the
  // barrier that makes the result readable by the host, submits the buffer with one timeline signal
  // and waits for the signal.
  virtual void record_dispatch_and_wait() = 0;
  // Submits a copy of the dispatch that was recorded in advance, and waits. A runtime that receives
  // calls one at a time cannot do so.
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
