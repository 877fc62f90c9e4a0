// SPDX-License-Identifier: Apache-2.0
// Fuzzes PCI addresses in vendors' notations, and the grouping of devices by chip.
#include <algorithm>

#include "core/chip.h"
#include "fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto address = keel::parse_pci_address(text)) {
    if (keel::parse_pci_address(address->text()) != address) __builtin_trap();
  }
  keel::fuzz::Bytes bytes({data, size});
  std::vector<keel_device_info> devices(bytes.below(16));
  for (keel_device_info& device : devices) {
    const std::string address = bytes.text(sizeof(device.pci_address) - 1);
    std::copy(address.begin(), address.end(), device.pci_address);
    device.uuid[0] = static_cast<uint8_t>(bytes.below(4));
  }
  const std::vector<uint32_t> chips = keel::number_chips(devices);
  uint32_t next = 0;
  for (uint32_t chip : chips) {  // numbered in order of appearance
    if (chip > next) __builtin_trap();
    next = std::max(next, chip + 1);
  }
  return chips.size() == devices.size() ? 0 : (__builtin_trap(), 0);
}
