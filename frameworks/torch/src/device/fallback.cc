// SPDX-License-Identifier: Apache-2.0
#include "fallback.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <keel/keel.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>

#include "devices.h"
#include "generator.h"
#include "views.h"

namespace keel_torch::device {

namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, uint64_t> calls;
  uint64_t keel_before = 0;  // Keel's own count at the last reset
};
Counts& counts() {
  static auto* const made = new Counts;
  return *made;
}

std::atomic<bool> forbidden{false};

uint64_t keel_count() {
  uint64_t count = 0;
  if (is_initialized()) (void)keel_op_fallback_count(&count);
  return count;
}

// The tensors of |stack|'s last |count| values.
std::vector<at::Tensor> tensors_of(const torch::jit::Stack& stack, size_t count) {
  std::vector<at::Tensor> tensors;
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    const c10::IValue& value = stack[i];
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  return tensors;
}

// Replaces a generator of a keel device by one of the CPU whose seed is drawn from it.
void replace_generator(torch::jit::Stack& stack, size_t count) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (!stack[i].isGenerator()) continue;
    const at::Generator generator = stack[i].toGenerator();
    if (generator.device().type() != kType) continue;
    const Philox philox = reserve(generator, generator.device().index(), 4);
    at::Generator of_cpu = at::detail::createCPUGenerator();
    of_cpu.set_current_seed(static_cast<uint64_t>(philox.seed) ^
                            (static_cast<uint64_t>(philox.offset) * 0x9e3779b97f4a7c15u));
    stack[i] = of_cpu;
  }
}

// Counts a call, unless fallbacks are forbidden.
void count(const std::string& name, const std::string& overload, c10::DeviceIndex device) {
  TORCH_CHECK_NOT_IMPLEMENTED(!forbidden, "keel: ", name, overload.empty() ? "" : "." + overload,
                              " has no kernel for these arguments on keel:",
                              static_cast<int>(device), " (", keel_torch::device::name(device),
                              "), and its fallback to the CPU is forbidden; "
                              "keel_torch.forbid_fallback(False) allows it, or "
                              "move the tensors by .cpu()");
  const std::lock_guard lock(counts().mutex);
  ++counts().calls[name];
}

void fall_back_boxed(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  fall_back(op, stack);
}

}  // namespace

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  const size_t arguments = op.schema().arguments().size();
  c10::DeviceIndex device = current();
  {
    const std::vector<at::Tensor> tensors = tensors_of(*stack, arguments);
    check_one_device(name.c_str(), tensors);
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && tensor.device().type() == kType) device = tensor.device().index();
    }
  }
  count(name, op.schema().overload_name(), device);
  replace_generator(*stack, arguments);
  at::native::cpu_fallback(op, stack);
}

void count_fallback(const std::string& name, c10::DeviceIndex device) {
  count(name, "", device);
}

std::map<std::string, uint64_t> fallbacks() {
  const uint64_t of_keel = keel_count();
  const std::lock_guard lock(counts().mutex);
  std::map<std::string, uint64_t> calls = counts().calls;
  if (of_keel > counts().keel_before) calls["keel"] = of_keel - counts().keel_before;
  return calls;
}

void reset_fallbacks() {
  const uint64_t of_keel = keel_count();
  const std::lock_guard lock(counts().mutex);
  counts().calls.clear();
  counts().keel_before = of_keel;
}

void forbid_fallback(bool is_forbidden) {
  forbidden = is_forbidden;
  (void)handle(current());
  check(keel_op_forbid_fallback(is_forbidden ? 1 : 0), "forbidding fallbacks");
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back_boxed>());
}

}  // namespace keel_torch::device
