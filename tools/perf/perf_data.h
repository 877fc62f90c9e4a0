// SPDX-License-Identifier: Apache-2.0
// The data sent by `keel perf`, and the expected results. Values are drawn from a seed, so each
// rank can compute the values of all ranks, and chosen so that each reduction is exact in its type,
// in any order.
#ifndef KEEL_TOOLS_PERF_PERF_DATA_H_
#define KEEL_TOOLS_PERF_PERF_DATA_H_

#include <keel/keel.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tools/perf/perf_operation.h"

namespace keel::cli {

// The data of an operation. Without a reduction, elements are arbitrary bits.
class PerfData {
 public:
  PerfData(keel_dtype dtype, std::optional<keel_reduction> reduction, uint32_t world,
           uint64_t seed);

  // Writes |out|.size() / element size elements of |rank|'s send buffer, from |index| on.
  void fill(uint32_t rank, uint64_t index, std::span<std::byte> out) const;
  // Writes the reduction over all ranks, from |index| on.
  void reduce(uint64_t index, std::span<std::byte> out) const;
  // Writes the expected result of |operation| on |rank|, from element |at| on.
  void expect(const PerfOperation& operation, const PerfCounts& counts, uint32_t rank,
              uint32_t root, uint64_t at, std::span<std::byte> out) const;

  // Factor of KEEL_PREMUL_SUM: 1 for even ranks, 2 for odd ones.
  static double factor(uint32_t rank) { return 1 + rank % 2; }

 private:
  template <typename Function>
  void store_each(uint64_t index, std::span<std::byte> out, const Function& value) const;
  int64_t value(uint32_t rank, uint64_t index) const;
  int64_t reduced(uint64_t index) const;

  keel_dtype dtype_;
  std::optional<keel_reduction> reduction_;
  uint32_t world_;
  uint64_t seed_;
  int64_t limit_;  // integers up to this limit are exact
  bool is_signed_;
  bool is_integer_;
};

// Returns the number of elements, of |element_bytes| each, whose bits differ.
uint64_t count_wrong(std::span<const std::byte> got, std::span<const std::byte> expected,
                     uint64_t element_bytes);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_DATA_H_
