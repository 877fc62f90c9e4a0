// SPDX-License-Identifier: Apache-2.0
// Helpers of the suites on the memory table: the memory kinds, the contents of blocks, and the
// address ranges in use.
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
  uint64_t capability;
  bool is_hosts;  // the host may access the memory
};
inline constexpr std::array<MemoryKind, 3> kMemoryKinds = {
    {{"device", KEEL_MEMORY_DEVICE, 0, false},
     {"pinned", KEEL_MEMORY_PINNED, KEEL_CAPABILITY_PINNED, true},
     {"managed", KEEL_MEMORY_MANAGED, KEEL_CAPABILITY_MANAGED, true}}};

// Writes and reads blocks: directly if the host may access the kind, otherwise by copies on a
// stream.
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

// The address ranges of live blocks. add() fails the case if two blocks overlap.
class Ranges {
 public:
  void add(const TableBlock& block, Where where = Where::current());
  void remove(const TableBlock& block) { ranges_.erase(block.address()); }

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

// Fails the case unless |block| has the alignment that device.info reports, and is not NULL.
void check_aligned(const Context& context, const TableBlock& block, Where where = Where::current());
// Returns the free bytes of device.memory_info; 0 without that capability.
uint64_t free_bytes(const Context& context, Where where = Where::current());

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_MEMORY_H_
