// SPDX-License-Identifier: Apache-2.0
// An embedding whose table lies in shards, a range of the vocabulary on each rank: all ranks
// together make the very bits of one that has the whole table.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <keel/float_types.hpp>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/testing/test_backend.h"

namespace {

using Bytes = std::vector<uint8_t>;

constexpr int64_t kVocabulary = 10;
constexpr int64_t kWidth = 19;
constexpr int64_t kTokens = 12;

struct Shard {
  int64_t first, rows;
};
constexpr std::array<Shard, 3> kShards = {{{0, 4}, {4, 5}, {9, 1}}};

class VocabularyShards : public testing::TestWithParam<keel_dtype> {
 protected:
  static void SetUpTestSuite() { keel::testing::set_test_devices(1); }

  static uint64_t row_bytes(keel_dtype dtype) {
    return static_cast<uint64_t>(kWidth) * (dtype == KEEL_FLOAT32 ? sizeof(float) : 2);
  }

  // None of them is 0, whose sign a sum with zeroes does not keep.
  static Bytes numbers(int64_t rows) {
    Bytes bytes;
    for (int64_t i = 0; i < rows * kWidth; ++i) {
      const auto number = static_cast<float>(std::sin(static_cast<double>(i + 1)));
      const auto append = [&](auto value) {
        const auto* const begin = reinterpret_cast<const uint8_t*>(&value);
        bytes.insert(bytes.end(), begin, begin + sizeof(value));
      };
      if (GetParam() == KEEL_FLOAT32) {
        append(number);
      } else if (GetParam() == KEEL_BFLOAT16) {
        append(keel::to_bfloat16(number));
      } else {
        append(keel::to_float16(number));
      }
    }
    return bytes;
  }

  template <typename Values>
  keel::Buffer uploaded(const Values& values) {
    keel::Buffer buffer(device_, KEEL_MEMORY_DEVICE, std::span(values).size_bytes());
    stream_.upload(buffer, values);
    stream_.synchronize();
    return buffer;
  }

  Bytes downloaded(const keel::Buffer& buffer) {
    Bytes bytes(buffer.size());
    stream_.download(bytes, buffer);
    stream_.synchronize();
    return bytes;
  }

  // The rows of the tokens that |shard| has, enqueued on |stream|.
  keel::Buffer look_up(const keel::Stream& stream, const Shard& shard) {
    keel::Buffer out(device_, KEEL_MEMORY_DEVICE,
                     static_cast<uint64_t>(kTokens) * row_bytes(GetParam()));
    keel_tensor table = table_.tensor(GetParam(), {shard.rows, kWidth});
    table.byte_offset = static_cast<uint64_t>(shard.first) * row_bytes(GetParam());
    keel::ops::embedding(stream, {.table = table,
                                  .indices = tokens_.tensor<int32_t>({kTokens}),
                                  .out = out.tensor(GetParam(), {kTokens, kWidth}),
                                  .first = shard.first});
    return out;
  }

  // What the rows of |shard| add up to, in float32.
  keel::Buffer add_up(const keel::Buffer& gradient, const Shard& shard) {
    keel::Buffer sums(device_, KEEL_MEMORY_DEVICE,
                      static_cast<uint64_t>(shard.rows) * row_bytes(KEEL_FLOAT32));
    keel::ops::embedding_backward(stream_, {.dout = gradient.tensor(GetParam(), {kTokens, kWidth}),
                                            .indices = tokens_.tensor<int32_t>({kTokens}),
                                            .dtable = sums.tensor<float>({shard.rows, kWidth}),
                                            .first = shard.first});
    return sums;
  }

  keel::Runtime runtime_;
  keel::Device device_ = keel::Device::find(keel::testing::test_device(0));
  keel::Stream stream_{device_};
  keel::Buffer table_ = uploaded(numbers(kVocabulary));
  // Of every shard some, one thrice, and two that are no tokens.
  keel::Buffer tokens_ =
      uploaded(std::vector<int32_t>{3, 0, 9, 4, 3, 7, 3, 8, -1, 4, kVocabulary, 9});
};

INSTANTIATE_TEST_SUITE_P(Dtypes, VocabularyShards,
                         testing::Values(KEEL_FLOAT32, KEEL_BFLOAT16, KEEL_FLOAT16),
                         [](const auto& info) {
                           return std::string(info.param == KEEL_FLOAT32    ? "float32"
                                              : info.param == KEEL_BFLOAT16 ? "bfloat16"
                                                                            : "float16");
                         });

TEST_P(VocabularyShards, SumToTheRowsOfTheWholeTable) {
  const Bytes whole = downloaded(look_up(stream_, {0, kVocabulary}));
  ASSERT_NE(whole, Bytes(whole.size(), 0));
  std::vector<keel::Communicator> ranks =
      keel::Communicator::all(std::vector<keel::Device>(kShards.size(), device_));
  std::vector<keel::Stream> streams;
  std::vector<keel::Buffer> rows;
  for (size_t rank = 0; rank < kShards.size(); ++rank) {
    streams.emplace_back(device_);
    rows.push_back(look_up(streams[rank], kShards[rank]));
    ranks[rank].all_reduce(rows[rank].data(), rows[rank].data(), kTokens * kWidth, GetParam(),
                           KEEL_SUM, streams[rank]);
  }
  for (const keel::Stream& stream : streams) stream.synchronize();
  for (const keel::Buffer& each : rows) EXPECT_EQ(downloaded(each), whole);
}

TEST_P(VocabularyShards, GradientsSideBySideAreThatOfTheWholeTable) {
  const keel::Buffer gradient = uploaded(numbers(kTokens));
  const Bytes whole = downloaded(add_up(gradient, {0, kVocabulary}));
  Bytes parts;
  for (const Shard& shard : kShards) {
    const Bytes part = downloaded(add_up(gradient, shard));
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
}

}  // namespace
