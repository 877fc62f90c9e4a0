// SPDX-License-Identifier: Apache-2.0
// Which devices are ways into one physical chip.
#ifndef KEEL_CORE_CHIP_H_
#define KEEL_CORE_CHIP_H_

#include <keel/abi.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace keel {

struct PciAddress {
  uint32_t domain = 0;
  uint32_t bus = 0;
  uint32_t device = 0;
  uint32_t function = 0;

  bool operator==(const PciAddress&) const = default;
  // As Linux writes it: "0000:3b:00.0".
  std::string text() const;
};

// Understands what vendors write: "0000:3b:00.0", "3B:00.0", "00000000:3B:00.0".
// Nothing for text that is no address.
std::optional<PciAddress> parse_pci_address(std::string_view text);

// The chip of each device, numbered in the order in which they first appear: devices
// with one PCI address, or one UUID that is not zero, share it; with neither, a device
// is a chip of its own.
std::vector<uint32_t> number_chips(const std::vector<keel_device_info>& devices);

}  // namespace keel

#endif  // KEEL_CORE_CHIP_H_
