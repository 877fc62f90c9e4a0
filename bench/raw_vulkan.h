// SPDX-License-Identifier: Apache-2.0
// A Vulkan program without Keel: the least that a runtime has to do to run a kernel and
// wait for it, and the arithmetic that the device is capable of.
#ifndef KEEL_BENCH_RAW_VULKAN_H_
#define KEEL_BENCH_RAW_VULKAN_H_

#include <cstdint>
#include <memory>
#include <string>

namespace keel::bench {

// A device of its own on the same chip, used by one thread. Failures are thrown.
class RawVulkan {
 public:
  // The device with the 16 bytes of |uuid|. NULL, with the reason, where there is none or
  // this build has no Vulkan.
  static std::unique_ptr<RawVulkan> open(const uint8_t* uuid, std::string* out_reason);
  virtual ~RawVulkan() = default;

  // Begins a command buffer, records one dispatch over 64 floats with its push constants
  // and the barrier that makes the result readable by the host, submits it with one
  // timeline signal, waits for that.
  virtual void record_dispatch_and_wait() = 0;
  // The same dispatch recorded beforehand: only submits and waits. No runtime that takes
  // calls as they come can do so.
  virtual void submit_dispatch_and_wait() = 0;
  // Submits no commands at all, and waits.
  virtual void submit_nothing_and_wait() = 0;
  // Chains of multiply-adds on all cores.
  virtual void multiply_add_and_wait() = 0;
  // Floating-point operations of one such run.
  virtual double multiply_add_operations() const = 0;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_RAW_VULKAN_H_
