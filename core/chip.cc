// SPDX-License-Identifier: Apache-2.0
#include "core/chip.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace keel {

namespace {

// Parses all of |text| as a hexadecimal number of at most |limit|.
std::optional<uint32_t> parse_hex(std::string_view text, uint32_t limit) {
  uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value, 16);
  if (parsed.ec != std::errc() || parsed.ptr != end || value > limit) return std::nullopt;
  return value;
}

}  // namespace

std::string PciAddress::text() const {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::optional<PciAddress> parse_pci_address(std::string_view text) {
  const size_t dot = text.rfind('.');
  const size_t colon = text.rfind(':');
  if (dot == std::string_view::npos || colon == std::string_view::npos || dot < colon) {
    return std::nullopt;
  }
  const std::string_view before = text.substr(0, colon);  // "0000:3b" or "3b"
  const size_t domain_end = before.find(':');
  const bool has_domain = domain_end != std::string_view::npos;
  const auto domain = parse_hex(has_domain ? before.substr(0, domain_end) : "0", UINT32_MAX);
  const auto bus = parse_hex(has_domain ? before.substr(domain_end + 1) : before, 0xff);
  const auto device = parse_hex(text.substr(colon + 1, dot - colon - 1), 0x1f);
  const auto function = parse_hex(text.substr(dot + 1), 7);
  if (!domain || !bus || !device || !function) return std::nullopt;
  return PciAddress{*domain, *bus, *device, *function};
}

ChipId ChipId::of(const keel_device_info& device) {
  ChipId id;
  if (const auto pci = parse_pci_address(device.pci_address)) {
    // A domain has up to 32 bits; bus, device and function have 8, 5 and 3.
    id.pci = uint64_t{pci->domain} << 16 | pci->bus << 8 | pci->device << 3 | pci->function;
  }
  std::copy(std::begin(device.uuid), std::end(device.uuid), id.uuid.begin());
  return id;
}

std::optional<PciAddress> ChipId::pci_address() const {
  if (pci == kNoPci) return std::nullopt;
  return PciAddress{static_cast<uint32_t>(pci >> 16), static_cast<uint32_t>(pci >> 8 & 0xff),
                    static_cast<uint32_t>(pci >> 3 & 0x1f), static_cast<uint32_t>(pci & 7)};
}

bool ChipId::is_same_as(const ChipId& other) const {
  if (pci != kNoPci && pci == other.pci) return true;
  return uuid != decltype(uuid){} && uuid == other.uuid;
}

std::vector<uint32_t> number_chips(const std::vector<keel_device_info>& devices) {
  std::vector<ChipId> ids;
  for (const keel_device_info& device : devices) ids.push_back(ChipId::of(device));
  // Each device starts as its own group. A match merges two groups; a third device that has both
  // address and UUID may merge two devices that share neither.
  std::vector<uint32_t> group(devices.size());
  for (uint32_t i = 0; i < group.size(); ++i) {
    group[i] = i;
    for (uint32_t j = 0; j < i; ++j) {
      if (group[i] == group[j]) continue;
      if (!ids[i].is_same_as(ids[j])) continue;
      const uint32_t kept = std::min(group[i], group[j]);
      const uint32_t merged = std::max(group[i], group[j]);
      std::replace(group.begin(), group.begin() + i + 1, merged, kept);
    }
  }
  uint32_t chips = 0;
  std::vector<uint32_t> numbers(group.size());
  for (uint32_t i = 0; i < group.size(); ++i) {
    numbers[i] = group[i] == i ? chips++ : numbers[group[i]];
  }
  return numbers;
}

}  // namespace keel
