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
  out_info->capabilities = KEEL_CAPABILITY_PINNED | KEEL_CAPABILITY_HOST_REGISTER |
                           KEEL_CAPABILITY_PEER_COPY | KEEL_CAPABILITY_ASYNC |
                           KEEL_CAPABILITY_TIMING | KEEL_CAPABILITY_NOTIFY |
                           KEEL_CAPABILITY_PRIORITY | KEEL_CAPABILITY_NATIVE_GATE |
                           KEEL_CAPABILITY_OPS | KEEL_CAPABILITY_MEMORY_INFO | KEEL_CAPABILITY_FILL;
  if (device.pageable_async) out_info->capabilities |= KEEL_CAPABILITY_PAGEABLE_ASYNC;
  if (has_ccl()) out_info->capabilities |= KEEL_CAPABILITY_CCL;
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
