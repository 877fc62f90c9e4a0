// SPDX-License-Identifier: Apache-2.0
// Tests the data of keel perf: exact in every type, for every reduction, with any number of ranks
// in any order; and wrong elements are found.
#include "tools/perf/perf_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <keel/float_types.hpp>
#include <keel/plugin_kit.hpp>
#include <set>
#include <vector>

namespace keel::cli {
namespace {

template <typename Stored>
double decode_as(const std::byte* bytes) {
  Stored stored;
  std::memcpy(&stored, bytes, sizeof(stored));
  if constexpr (std::is_enum_v<Stored>) {
    return to_float(stored);
  } else {
    return static_cast<double>(stored);
  }
}

double decode(keel_dtype dtype, const std::byte* bytes) {
  switch (dtype) {
    case KEEL_INT8:
      return decode_as<int8_t>(bytes);
    case KEEL_INT16:
      return decode_as<int16_t>(bytes);
    case KEEL_INT32:
      return decode_as<int32_t>(bytes);
    case KEEL_INT64:
      return decode_as<int64_t>(bytes);
    case KEEL_UINT8:
      return decode_as<uint8_t>(bytes);
    case KEEL_UINT16:
      return decode_as<uint16_t>(bytes);
    case KEEL_UINT32:
      return decode_as<uint32_t>(bytes);
    case KEEL_UINT64:
      return decode_as<uint64_t>(bytes);
    case KEEL_FLOAT16:
      return decode_as<float16_t>(bytes);
    case KEEL_BFLOAT16:
      return decode_as<bfloat16_t>(bytes);
    case KEEL_FLOAT32:
      return decode_as<float>(bytes);
    case KEEL_FLOAT64:
      return decode_as<double>(bytes);
    case KEEL_FLOAT8_E4M3FN:
      return decode_as<float8_e4m3_t>(bytes);
    default:
      return decode_as<float8_e5m2_t>(bytes);
  }
}

constexpr uint64_t kElements = 300;

std::vector<double> decode_all(keel_dtype dtype, const std::vector<std::byte>& bytes) {
  std::vector<double> values;
  for (size_t at = 0; at < bytes.size(); at += kit::dtype_size(dtype)) {
    values.push_back(decode(dtype, &bytes[at]));
  }
  return values;
}

double combine(keel_reduction reduction, double a, double b) {
  switch (reduction) {
    case KEEL_PROD:
      return a * b;
    case KEEL_MIN:
      return std::min(a, b);
    case KEEL_MAX:
      return std::max(a, b);
    default:
      return a + b;
  }
}

// Stored values decode to the original ones, so sums of decoded values in float64, where all are
// exact, equal the expected result.
TEST(PerfData, EveryReductionIsExactInItsType) {
  for (keel_dtype dtype = KEEL_INT8; dtype < KEEL_DTYPE_COUNT; ++dtype) {
    for (keel_reduction reduction = KEEL_SUM; reduction < KEEL_REDUCTION_COUNT; ++reduction) {
      for (const uint32_t world : {1u, 2u, 3u, 8u, 33u, 300u}) {
        SCOPED_TRACE(::testing::Message() << kit::dtype_name(dtype) << ", reduction " << reduction
                                          << ", " << world << " ranks");
        const PerfData data(dtype, reduction, world, 7);
        std::vector<std::byte> bytes(kElements * kit::dtype_size(dtype));
        data.reduce(11, bytes);
        const std::vector<double> expected = decode_all(dtype, bytes);
        std::vector<double> result;
        for (uint32_t rank = 0; rank < world; ++rank) {
          data.fill(rank, 11, bytes);
          std::vector<double> values = decode_all(dtype, bytes);
          for (size_t i = 0; i < kElements; ++i) {
            if (reduction == KEEL_PREMUL_SUM) values[i] *= PerfData::factor(rank);
            if (rank > 0) values[i] = combine(reduction, result[i], values[i]);
          }
          result = std::move(values);
        }
        for (double& each : result) each /= reduction == KEEL_AVG ? world : 1;
        ASSERT_EQ(result, expected);
        // The data is meaningful: not all elements are equal.
        if (reduction != KEEL_AVG || world < 100) {
          EXPECT_GT(std::set<double>(expected.begin(), expected.end()).size(), 1u);
        }
      }
    }
  }
}

TEST(PerfData, ItIsTheSameFromAnyIndexOn) {
  const PerfData data(KEEL_FLOAT32, KEEL_SUM, 3, 5);
  std::vector<std::byte> all(400);
  std::vector<std::byte> part(80);
  data.fill(1, 0, all);
  data.fill(1, 30, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 120));
}

TEST(PerfData, RanksIndicesAndSeedsDiffer) {
  std::set<std::vector<std::byte>> seen;
  for (const uint64_t seed : {1, 2}) {
    const PerfData data(KEEL_INT32, std::nullopt, 2, seed);
    for (const uint32_t rank : {0u, 1u}) {
      for (const uint64_t index : {0, 16}) {
        std::vector<std::byte> bytes(64);
        data.fill(rank, index, bytes);
        seen.insert(bytes);
      }
    }
  }
  EXPECT_EQ(seen.size(), 8u);
}

// The result of each operation, computed here by its definition.
TEST(PerfData, WhatIsExpectedIsWhatTheOperationMeans) {
  constexpr uint32_t kWorld = 3;
  constexpr uint32_t kRoot = 1;
  constexpr uint64_t kCount = 8;
  const auto sent = [&](const PerfData& data, uint32_t rank, uint64_t index) {
    int32_t value = 0;
    data.fill(rank, index, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  };
  for (const std::string& name : perf_operation_names()) {
    if (name == "barrier") continue;
    SCOPED_TRACE(name);
    const PerfOperation& operation = *find_perf_operation(name);
    std::optional<keel_reduction> reduction;
    if (operation.reduces) reduction = KEEL_SUM;
    const PerfData data(KEEL_INT32, reduction, kWorld, 3);
    const bool parted = name.find("gather") != std::string::npos ||
                        name.find("scatter") != std::string::npos || name == "all_to_all";
    const PerfCounts counts = operation.counts((parted ? kCount * kWorld : kCount) * 4, 4, kWorld);
    ASSERT_EQ(counts.count, kCount);
    const auto sum = [&](uint64_t index) {
      return sent(data, 0, index) + sent(data, 1, index) + sent(data, 2, index);
    };
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      std::vector<int32_t> wanted;
      for (uint64_t i = 0; i < counts.receive; ++i) {
        const auto piece = static_cast<uint32_t>(i / kCount);
        const uint64_t within = i % kCount;
        if (name == "all_reduce" || name == "reduce") wanted.push_back(sum(i));
        if (name == "broadcast") wanted.push_back(sent(data, kRoot, i));
        if (name == "all_gather" || name == "gather") wanted.push_back(sent(data, piece, within));
        if (name == "reduce_scatter") wanted.push_back(sum(rank * kCount + i));
        if (name == "all_to_all") wanted.push_back(sent(data, piece, rank * kCount + within));
        if (name == "scatter") wanted.push_back(sent(data, kRoot, rank * kCount + i));
        if (name == "send_recv") wanted.push_back(sent(data, (rank + 2) % kWorld, i));
      }
      ASSERT_EQ(wanted.size(), counts.receive);
      for (const uint64_t from : {uint64_t{0}, uint64_t{3}}) {
        std::vector<int32_t> got(counts.receive - from);
        data.expect(operation, counts, rank, kRoot, from, std::as_writable_bytes(std::span(got)));
        EXPECT_TRUE(std::equal(got.begin(), got.end(), wanted.begin() + static_cast<long>(from)));
      }
      EXPECT_EQ(operation.has_result(rank, kRoot),
                rank == kRoot || (name != "reduce" && name != "gather"));
    }
  }
}

TEST(PerfData, WrongElementsAreCounted) {
  const PerfData data(KEEL_FLOAT32, KEEL_SUM, 4, 9);
  std::vector<std::byte> expected(1000 * 4);
  data.reduce(0, expected);
  std::vector<std::byte> got = expected;
  EXPECT_EQ(count_wrong(got, expected, 4), 0u);
  got[0] ^= std::byte{1};
  got[4 * 500] ^= std::byte{128};
  got[4 * 500 + 3] ^= std::byte{1};
  got[3999] ^= std::byte{2};
  EXPECT_EQ(count_wrong(got, expected, 4), 3u);
  EXPECT_EQ(count_wrong(got, expected, 1), 4u);
  std::fill(got.begin(), got.end(), std::byte{0xa5});
  EXPECT_EQ(count_wrong(got, expected, 4), 1000u);
}

// ---- sizes and bandwidths -------------------------------------------------------------

TEST(PerfOperation, SizesAndOffsetsAreThoseOfNcclTests) {
  const auto counts = [](const char* name) {
    const PerfCounts c = find_perf_operation(name)->counts(4096, 4, 4);
    return std::vector<uint64_t>{c.count, c.send, c.receive, c.send_offset, c.receive_offset};
  };
  using List = std::vector<uint64_t>;
  for (const char* name : {"all_reduce", "reduce", "broadcast", "send_recv"}) {
    EXPECT_EQ(counts(name), (List{1024, 1024, 1024, 0, 0})) << name;
  }
  for (const char* name : {"all_gather", "gather"}) {
    EXPECT_EQ(counts(name), (List{256, 256, 1024, 256, 0})) << name;
  }
  for (const char* name : {"reduce_scatter", "scatter"}) {
    EXPECT_EQ(counts(name), (List{256, 1024, 256, 0, 256})) << name;
  }
  EXPECT_EQ(counts("all_to_all"), (List{256, 1024, 1024, 0, 0}));
  EXPECT_EQ(counts("barrier"), (List{0, 0, 0, 0, 0}));
}

// Each rank's part is rounded down to a multiple of 16 bytes; buffers without parts are not
// rounded.
TEST(PerfOperation, PartsAreRoundedAsNcclTestsRoundsThem) {
  struct Row {
    uint64_t bytes;
    uint64_t element_bytes;
    uint32_t world;
    uint64_t part;  // elements
  };
  for (const Row& row : {Row{8, 4, 3, 0}, Row{47, 1, 3, 0}, Row{48, 1, 3, 16}, Row{100, 4, 3, 8},
                         Row{1000, 4, 3, 80}, Row{1000, 8, 3, 40}, Row{1000, 2, 3, 160},
                         Row{1000, 1, 3, 320}, Row{1 << 20, 4, 3, 87380}, Row{6000, 4, 4, 372},
                         Row{4096, 4, 8, 128}, Row{31, 8, 1, 2}, Row{33, 2, 1, 16}}) {
    SCOPED_TRACE(::testing::Message() << row.bytes << " bytes, elements of " << row.element_bytes
                                      << ", " << row.world << " ranks");
    for (const char* name : {"all_gather", "gather", "reduce_scatter", "scatter", "all_to_all"}) {
      const PerfCounts counts =
          find_perf_operation(name)->counts(row.bytes, row.element_bytes, row.world);
      EXPECT_EQ(counts.count, row.part) << name;
      EXPECT_EQ(std::max(counts.send, counts.receive), row.part * row.world) << name;
    }
    for (const char* name : {"all_reduce", "reduce", "broadcast", "send_recv"}) {
      const PerfCounts counts =
          find_perf_operation(name)->counts(row.bytes, row.element_bytes, row.world);
      EXPECT_EQ(counts.count, row.bytes / row.element_bytes) << name;
    }
  }
}

TEST(PerfOperation, BandwidthsAreThoseOfNcclTests) {
  const auto bus = [](const char* name, uint32_t world) {
    const PerfOperation& operation = *find_perf_operation(name);
    const PerfCounts counts = operation.counts(1 << 20, 4, world);
    return operation.algorithm_bandwidth(counts, 4, 1e-3) * operation.bus_factor(world);
  };
  const double one = (1 << 20) / 1e9 / 1e-3;  // GB/s
  EXPECT_DOUBLE_EQ(bus("all_reduce", 8), one * 2 * 7 / 8);
  for (const char* name : {"all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"}) {
    EXPECT_DOUBLE_EQ(bus(name, 8), one * 7 / 8) << name;
  }
  for (const char* name : {"reduce", "broadcast", "send_recv"}) {
    EXPECT_DOUBLE_EQ(bus(name, 8), one) << name;
  }
  EXPECT_EQ(bus("barrier", 8), 0);
  EXPECT_EQ(find_perf_operation("all_reduce_"), nullptr);
}

}  // namespace
}  // namespace keel::cli
