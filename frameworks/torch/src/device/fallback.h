// SPDX-License-Identifier: Apache-2.0
// Operators that the CPU runs for a keel device, on copies: named, counted, and refused on demand.
#ifndef FRAMEWORKS_TORCH_SRC_DEVICE_FALLBACK_H_
#define FRAMEWORKS_TORCH_SRC_DEVICE_FALLBACK_H_

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/native/CPUFallback.h>

#include <cstdint>
#include <map>
#include <string>

namespace keel_torch::device {

// Runs |op| on copies of the tensors in |stack| on the CPU, and copies what it wrote back. Throws
// if fallbacks are forbidden, and where the tensors are of two devices.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Counts a call of |name|, "aten::copy_", that the caller runs on the CPU for |device|. Throws if
// fallbacks are forbidden.
void count_fallback(const std::string& name, c10::DeviceIndex device);

// Number of calls by operator, "aten::erfinv", and those of Keel's own operators for which Keel
// ran the CPU's kernel, as "keel".
std::map<std::string, uint64_t> fallbacks();
void reset_fallbacks();
// Refuses later fallbacks, those inside Keel too.
void forbid_fallback(bool is_forbidden);

}  // namespace keel_torch::device

// Calls the CPU's kernel of an operator, counted as a fallback.
#define KEEL_FALL_BACK(OP, ...) \
  at::native::call_fallback_fn<&keel_torch::device::fall_back, at::_ops::OP>::call(__VA_ARGS__)
#define KEEL_FALL_BACK2(OP, OVERLOAD, ...)                                                       \
  at::native::call_fallback_fn<&keel_torch::device::fall_back, at::_ops::OP##_##OVERLOAD>::call( \
      __VA_ARGS__)

#endif  // FRAMEWORKS_TORCH_SRC_DEVICE_FALLBACK_H_
