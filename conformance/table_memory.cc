// SPDX-License-Identifier: Apache-2.0
#include "conformance/table_memory.h"

#include <fmt/format.h>

#include <iterator>
#include <vector>

namespace keel::conformance {

void Contents::write(const TableBlock& block, uint64_t offset, std::span<const std::byte> bytes,
                     Where where) const {
  if (kind_.is_hosts) {
    write_host(block.at(offset), bytes);
  } else {
    stream_.copy(KEEL_COPY_HOST_TO_DEVICE, block.at(offset), bytes.data(), bytes.size(), where);
  }
}

void Contents::expect(const TableBlock& block, uint64_t offset, std::span<const std::byte> wanted,
                      const std::string& what, Where where) const {
  if (kind_.is_hosts) {
    compare(read_host(block.at(offset), wanted.size(), where), wanted, what, where);
    return;
  }
  std::vector<std::byte> got(wanted.size());
  stream_.copy(KEEL_COPY_DEVICE_TO_HOST, got.data(), block.at(offset), got.size(), where);
  check_equal(got, wanted, what, where);
}

void Ranges::add(const TableBlock& block, Where where) {
  const auto next = ranges_.upper_bound(block.address());
  const bool before =
      next != ranges_.begin() && std::prev(next)->first + std::prev(next)->second > block.address();
  const bool behind = next != ranges_.end() && block.size() > next->first - block.address();
  check(!before && !behind,
        fmt::format("{} bytes at {:#x} overlap a block that lives", block.size(), block.address()),
        where);
  ranges_.emplace(block.address(), block.size());
}

void check_aligned(const Context& context, const TableBlock& block, Where where) {
  const uint32_t alignment = context.environment.info.alignment;
  check(block.address() != 0, fmt::format("memory.alloc of {} bytes: NULL", block.size()), where);
  check(
      block.address() % alignment == 0,
      fmt::format("{} bytes at {:#x}: not aligned to {}", block.size(), block.address(), alignment),
      where);
}

uint64_t free_bytes(const Context& context, Where where) {
  if (!context.has(KEEL_CAPABILITY_MEMORY_INFO)) return 0;
  uint64_t free = 0;
  uint64_t total = 0;
  need(device_of(context).plugin().device->memory_info(device_of(context).get(), &free, &total),
       "device.memory_info", where);
  return observe(free, where);
}

}  // namespace keel::conformance
