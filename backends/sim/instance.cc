// SPDX-License-Identifier: Apache-2.0
#include "backends/sim/instance.h"

#include <algorithm>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <string>

namespace keel::sim {

void Instance::describe(keel_device_info* out_info) const {
  const emulator::DeviceOptions& device = settings_.device;
  const std::string name =
      "emulated chip" + (device.profile ? " (" + device.profile->name + ")" : std::string());
  kit::copy_text(out_info->name, name.c_str());
  kit::copy_text(out_info->architecture,
                 device.profile ? device.profile->architecture.c_str() : "emulated");
  kit::copy_text(out_info->pci_address, "");
  kit::copy_text(out_info->driver, "emulator " KEEL_SIM_VERSION);
  std::fill(std::begin(out_info->uuid), std::end(out_info->uuid), uint8_t{0});
  out_info->type = KEEL_DEVICE_OTHER;
  out_info->numa_node = -1;
  out_info->claims = KEEL_CLAIM_PINNED | KEEL_CLAIM_HOST_REGISTER | KEEL_CLAIM_PEER_COPY |
                     KEEL_CLAIM_ASYNC | KEEL_CLAIM_TIMING | KEEL_CLAIM_NOTIFY |
                     KEEL_CLAIM_PRIORITY | KEEL_CLAIM_NATIVE_GATE | KEEL_CLAIM_OPS |
                     KEEL_CLAIM_MEMORY_INFO | KEEL_CLAIM_FILL;
  if (device.pageable_async) out_info->claims |= KEEL_CLAIM_PAGEABLE_ASYNC;
  if (has_ccl()) out_info->claims |= KEEL_CLAIM_CCL;
  out_info->memory_bytes = device.memory_bytes;
  out_info->max_alloc_bytes = 0;
  out_info->alignment = emulator::Memory::kAlignment;
  out_info->compute_units = 0;
  out_info->hardware_queues = device.single_queue ? 1 : 0;
  out_info->copy_alignment = 0;
}

emulator::Status Instance::open(uint32_t ordinal,
                                std::shared_ptr<emulator::Device>* out_device) const {
  emulator::DeviceOptions options = settings_.device;
  options.index = ordinal;
  return emulator::Device::create(options, out_device);
}

}  // namespace keel::sim
