// SPDX-License-Identifier: Apache-2.0
// Maps devices to physical chips: several devices may drive one chip.
#ifndef KEEL_CORE_CHIP_H_
#define KEEL_CORE_CHIP_H_

#include <keel/abi.h>

#include <array>
#include <compare>
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
  // Formats the address as Linux does: "0000:3b:00.0".
  std::string text() const;
};

// Parses the vendors' spellings: "0000:3b:00.0", "3B:00.0", "00000000:3B:00.0". Returns nullopt if
// |text| is no address.
std::optional<PciAddress> parse_pci_address(std::string_view text);

// Identifies a chip on its machine by fixed-size numbers, as ranks exchange them.
struct ChipId {
  static constexpr uint64_t kNoPci = UINT64_MAX;
  uint64_t pci = kNoPci;              // domain, then bus, device and function in the low 16 bits
  std::array<uint8_t, 16> uuid = {};  // 0: unknown

  static ChipId of(const keel_device_info& device);
  // Returns nullopt without a PCI address.
  std::optional<PciAddress> pci_address() const;
  bool is_known() const { return pci != kNoPci || uuid != decltype(uuid){}; }
  // Whether both name one chip of one machine, by PCI address or by UUID.
  bool is_same_as(const ChipId& other) const;
  auto operator<=>(const ChipId&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Returns the chip number of each device, in order of first appearance. Devices with the same PCI
// address or the same non-zero UUID share a chip; a device with neither is its own chip.
std::vector<uint32_t> number_chips(const std::vector<keel_device_info>& devices);

}  // namespace keel

#endif  // KEEL_CORE_CHIP_H_
