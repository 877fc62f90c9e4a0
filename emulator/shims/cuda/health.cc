// SPDX-License-Identifier: Apache-2.0
#include "emulator/shims/cuda/health.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "emulator/shims/cuda/driver.h"

namespace keel::emulator::cuda {
namespace {

bool is_slowed(uint32_t index) {
  const auto& faults = Driver::get().settings().chips.device.faults;
  return std::any_of(faults.begin(), faults.end(), [index](const Fault& fault) {
    return fault.action == Fault::Action::kSlow && fault.device.value_or(index) == index &&
           fault.kind.value_or(CallKind::kOp) == CallKind::kOp;
  });
}

}  // namespace
}  // namespace keel::emulator::cuda

using namespace keel::emulator::cuda;  // NOLINT: the function below is a C function

bool keel_emulated_cuda_health(uint32_t index, ChipHealth* out_health) {
  Context* const context = Driver::get().context(static_cast<CUdevice>(index));
  if (context == nullptr) return false;
  ChipHealth health = context->health();
  health.is_slowed = is_slowed(index);
  const std::string address = pci_address(index);
  std::memcpy(health.pci_address, address.c_str(),
              std::min(address.size() + 1, sizeof(health.pci_address)));
  *out_health = health;
  return true;
}
