// SPDX-License-Identifier: Apache-2.0
// What the suites on the memory table share: the kinds of memory, what is in a block, and which
// addresses are taken.
#ifndef KEEL_CONFORMANCE_TABLE_MEMORY_H_
#define KEEL_CONFORMANCE_TABLE_MEMORY_H_

#include <keel/abi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "conformance/table_calls.h"

namespace keel::conformance {

struct MemoryKind {
  const char* name;
  keel_memory_kind kind;
  uint64_t claim;
  bool is_hosts;  // the host may touch it
};
inline constexpr std::array<MemoryKind, 3> kMemoryKinds = {
    {{"device", KEEL_MEMORY_DEVICE, 0, false},
     {"pinned", KEEL_MEMORY_PINNED, KEEL_CLAIM_PINNED, true},
     {"managed", KEEL_MEMORY_MANAGED, KEEL_CLAIM_MANAGED, true}}};

// Writes and reads a block as its kind allows.
class Contents {
 public:
  Contents(const Context& context, const MemoryKind& kind) : kind_(kind), stream_(context) {}
  void write(const TableBlock& block, uint64_t offset, std::span<const std::byte> bytes,
             Where where = Where::current()) const;
  void expect(const TableBlock& block, uint64_t offset, std::span<const std::byte> wanted,
              const std::string& what, Where where = Where::current()) const;

 private:
  const MemoryKind& kind_;
  const TableStream stream_;
};

// The blocks that live, by address: none may reach into another.
class Ranges {
 public:
  void add(const TableBlock& block, Where where = Where::current());
  void remove(const TableBlock& block) { ranges_.erase(block.address()); }

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

// Fails the case unless |block| lies as device.info has it.
void check_aligned(const Context& context, const TableBlock& block, Where where = Where::current());
// The free bytes of device.memory_info; 0 where that is not claimed.
uint64_t free_bytes(const Context& context, Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_MEMORY_H_
