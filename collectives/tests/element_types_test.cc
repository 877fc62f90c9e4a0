// SPDX-License-Identifier: Apache-2.0
// bool, complex numbers and bitwise reductions, against a serial loop.
#include <complex>
#include <functional>
#include <string>

#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

using testing::LocalRanks;
using Bytes = std::vector<uint8_t>;

// Sizes of the paths within the call, of one pass and of several chunks.
constexpr uint64_t kCounts[] = {1, 7, 1000, 100'003};

class ElementTypesTest : public LocalRanks {
 protected:
  // Returns the value that all ranks receive from an all_reduce of |of|(rank, index), once into
  // another buffer and once in place.
  template <typename Value>
  void expect_all_reduce(keel_dtype dtype, keel_reduction reduction, uint64_t count,
                         const std::function<Value(uint32_t rank, uint64_t index)>& of,
                         const std::function<Value(uint64_t index)>& wanted) {
    std::vector<void*> send(kWorld);
    std::vector<void*> receive(kWorld);
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      std::vector<Value> values(count);
      for (uint64_t i = 0; i < count; ++i) values[i] = of(rank, i);
      send[rank] = upload(rank, values);
      receive[rank] = allocate(rank, count * sizeof(Value));
    }
    for (const bool in_place : {false, true}) {
      for (uint32_t rank = 0; rank < kWorld; ++rank) {
        EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], send[rank],
                                       in_place ? send[rank] : receive[rank], count, dtype,
                                       reduction, streams_[rank]));
      }
      for (uint32_t rank = 0; rank < kWorld; ++rank) {
        const std::vector<Value> got =
            download<Value>(rank, in_place ? send[rank] : receive[rank], count);
        for (uint64_t i = 0; i < count; ++i) {
          ASSERT_EQ(got[i], wanted(i)) << "dtype " << dtype << ", reduction " << reduction
                                       << ", rank " << rank << ", element " << i;
        }
      }
    }
  }

  // Calls on all ranks, each of which refuses.
  void expect_refused(keel_dtype dtype, keel_reduction reduction, const std::string& text) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      void* const data = allocate(rank, 64);
      EXPECT_FAILS(KEEL_UNSUPPORTED, text,
                   keel_all_reduce(comms_[rank], data, data, 2, dtype, reduction, streams_[rank]));
    }
  }
};

constexpr keel_reduction kSum = KEEL_SUM, kMax = KEEL_MAX, kBor = KEEL_BOR;
constexpr keel_reduction kProd = KEEL_PROD, kMin = KEEL_MIN, kBand = KEEL_BAND;
constexpr keel_dtype kBool = KEEL_BOOL, kUint8 = KEEL_UINT8;

uint8_t bit_of(uint32_t rank, uint64_t index) {
  return static_cast<uint8_t>(index >> rank & 1);  // every combination of three ranks
}

TEST_F(ElementTypesTest, BoolIsReducedLogically) {
  const auto all = [](uint64_t i) -> uint8_t { return (i & 7) == 7; };
  const auto some = [](uint64_t i) -> uint8_t { return (i & 7) != 0; };
  const auto odd = [](uint64_t i) -> uint8_t { return (i ^ i >> 1 ^ i >> 2) & 1; };
  for (const uint64_t count : kCounts) {
    for (const keel_reduction reduction : {kSum, kMax, kBor}) {
      expect_all_reduce<uint8_t>(KEEL_BOOL, reduction, count, bit_of, some);
    }
    for (const keel_reduction reduction : {kProd, kMin, kBand}) {
      expect_all_reduce<uint8_t>(KEEL_BOOL, reduction, count, bit_of, all);
    }
    expect_all_reduce<uint8_t>(KEEL_BOOL, KEEL_BXOR, count, bit_of, odd);
  }
}

template <typename Real>
std::complex<Real> number(uint32_t rank, uint64_t index) {
  return {static_cast<Real>(rank + index % 100), static_cast<Real>(index % 7) - 3 * Real(rank)};
}

TEST_F(ElementTypesTest, ComplexNumbersAreAddedAndAveraged) {
  const auto sum = [](uint64_t i) {
    return number<float>(0, i) + number<float>(1, i) + number<float>(2, i);
  };
  for (const uint64_t count : kCounts) {
    expect_all_reduce<std::complex<float>>(KEEL_COMPLEX64, KEEL_SUM, count, number<float>, sum);
    expect_all_reduce<std::complex<float>>(KEEL_COMPLEX64, KEEL_AVG, count, number<float>,
                                           [&](uint64_t i) { return sum(i) / 3.f; });
    expect_all_reduce<std::complex<double>>(
        KEEL_COMPLEX128, KEEL_SUM, count, number<double>,
        [&](uint64_t i) { return std::complex<double>(sum(i)); });
  }
}

TEST_F(ElementTypesTest, ComplexNumbersAreScaledByRealFactors) {
  std::array<keel_reduction, kWorld> reductions;
  std::array<void*, kWorld> data;
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    ASSERT_KEEL_OK(keel_premul_sum_create(comms_[rank], rank + 0.5, &reductions[rank]));
    data[rank] = upload<std::complex<float>>(rank, {{2, -4}, {8, 0}});
    ASSERT_KEEL_OK(keel_all_reduce(comms_[rank], data[rank], data[rank], 2, KEEL_COMPLEX64,
                                   reductions[rank], streams_[rank]));
  }
  const std::vector<std::complex<float>> wanted = {{9, -18}, {36, 0}};  // 0.5 + 1.5 + 2.5
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    EXPECT_EQ(download<std::complex<float>>(rank, data[rank], 2), wanted);
  }
}

template <typename Value>
Value word(uint32_t rank, uint64_t index) {
  return static_cast<Value>((index + 1) * (0x9e3779b97f4a7c15u + 2 * rank));
}

TEST_F(ElementTypesTest, BitwiseReductionsOfEveryInteger) {
  const auto check = [&]<typename Value>(keel_dtype dtype, Value) {
    const auto of = [](uint32_t rank, uint64_t i) { return word<Value>(rank, i); };
    const uint64_t count = 1003;
    expect_all_reduce<Value>(dtype, KEEL_BAND, count, of, [&](uint64_t i) {
      return static_cast<Value>(of(0, i) & of(1, i) & of(2, i));
    });
    expect_all_reduce<Value>(dtype, KEEL_BOR, count, of, [&](uint64_t i) {
      return static_cast<Value>(of(0, i) | of(1, i) | of(2, i));
    });
    expect_all_reduce<Value>(dtype, KEEL_BXOR, count, of, [&](uint64_t i) {
      return static_cast<Value>(of(0, i) ^ of(1, i) ^ of(2, i));
    });
  };
  check(KEEL_INT8, int8_t{});
  check(KEEL_INT16, int16_t{});
  check(KEEL_INT32, int32_t{});
  check(KEEL_INT64, int64_t{});
  check(KEEL_UINT8, uint8_t{});
  check(KEEL_UINT16, uint16_t{});
  check(KEEL_UINT32, uint32_t{});
  check(KEEL_UINT64, uint64_t{});
}

TEST_F(ElementTypesTest, LargeBitwiseReductionsOfWords) {
  const auto of = [](uint32_t rank, uint64_t i) { return word<uint64_t>(rank, i); };
  expect_all_reduce<uint64_t>(KEEL_UINT64, KEEL_BXOR, 300'007, of,
                              [&](uint64_t i) { return of(0, i) ^ of(1, i) ^ of(2, i); });
}

TEST_F(ElementTypesTest, MeaninglessReductionsAreRefusedByName) {
  expect_refused(KEEL_BOOL, KEEL_AVG, "there is no avg of bool");
  expect_refused(KEEL_COMPLEX64, KEEL_MIN, "there is no min of complex64");
  expect_refused(KEEL_COMPLEX64, KEEL_MAX, "there is no max of complex64");
  expect_refused(KEEL_COMPLEX128, KEEL_PROD, "there is no prod of complex128");
  expect_refused(KEEL_COMPLEX128, KEEL_BXOR, "there is no bxor of complex128");
  expect_refused(KEEL_FLOAT32, KEEL_BAND, "there is no band of float32");
  expect_refused(KEEL_BFLOAT16, KEEL_BOR, "there is no bor of bfloat16");
  // The communicator goes on.
  expect_all_reduce<uint8_t>(KEEL_BOOL, KEEL_SUM, 8, bit_of,
                             [](uint64_t i) -> uint8_t { return i != 0; });
}

TEST_F(ElementTypesTest, TypesWithTheSameBytesMismatch) {
  for (const keel_dtype other : {kBool, kUint8}) {
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      void* const data = allocate(rank, 64);
      EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data, data, 16, rank == 1 ? kBool : other,
                                     rank == 1 ? kBor : kMax, streams_[rank]));
    }
    for (const keel_status status : recover()) EXPECT_EQ(status, KEEL_INVALID_ARGUMENT);
  }
  // The calls are repeated, so that a cache of earlier calls would answer for the other dtype.
  for (int round = 0; round < 3; ++round) {
    for (const keel_dtype dtype : {kUint8, kBool}) {
      expect_all_reduce<uint8_t>(dtype, KEEL_MAX, 8, bit_of,
                                 [](uint64_t i) -> uint8_t { return i != 0; });
    }
  }
}

TEST_F(ElementTypesTest, AMismatchNamesTheCallersTypeAndCount) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 1024);
    EXPECT_KEEL_OK(keel_all_reduce(comms_[rank], data, data, rank == 2 ? 30 : 31, KEEL_COMPLEX64,
                                   KEEL_SUM, streams_[rank]));
  }
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "all_reduce(30 complex64, sum)",
               keel_stream_synchronize(streams_[0], KEEL_TIMEOUT_DEFAULT));
  recover();
}

TEST_F(ElementTypesTest, EveryTypeIsMoved) {
  struct Type {
    keel_dtype dtype;
    uint32_t size;
  };
  for (const Type& type :
       {Type{KEEL_BOOL, 1}, Type{KEEL_COMPLEX64, 8}, Type{KEEL_COMPLEX128, 16}}) {
    constexpr uint64_t kCount = 1001;
    const uint64_t bytes = kCount * type.size;
    const auto piece = [&](uint32_t rank) {
      Bytes values(bytes);
      for (uint64_t i = 0; i < bytes; ++i) values[i] = static_cast<uint8_t>(i * 7 + rank) & 1;
      return values;
    };
    Bytes all;
    std::array<void*, kWorld> send;
    std::array<void*, kWorld> receive;
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      const Bytes own = piece(rank);
      all.insert(all.end(), own.begin(), own.end());
      send[rank] = upload(rank, own);
      receive[rank] = allocate(rank, kWorld * bytes);
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_KEEL_OK(keel_all_gather(comms_[rank], send[rank], receive[rank], kCount, type.dtype,
                                     streams_[rank]));
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_EQ(download<uint8_t>(rank, receive[rank], kWorld * bytes), all) << type.dtype;
    }
    // With arrays: rank 1's piece is half, and all lie apart.
    const uint64_t counts[kWorld] = {kCount, kCount / 2, kCount};
    const uint64_t offsets[kWorld] = {2 * kCount, kCount, 0};
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      EXPECT_KEEL_OK(keel_all_gather_v(comms_[rank], send[rank], receive[rank], counts, offsets,
                                       type.dtype, streams_[rank]));
    }
    for (uint32_t rank = 0; rank < kWorld; ++rank) {
      const Bytes got = download<uint8_t>(rank, receive[rank], kWorld * bytes);
      for (uint32_t peer = 0; peer < kWorld; ++peer) {
        const uint64_t at = offsets[peer] * type.size;
        const uint64_t size = counts[peer] * type.size;
        EXPECT_TRUE(std::equal(got.begin() + static_cast<int64_t>(at),
                               got.begin() + static_cast<int64_t>(at + size), piece(peer).begin()))
            << "piece of rank " << peer;
      }
    }
    const uint64_t messages = kCount - 1;
    EXPECT_KEEL_OK(keel_send(comms_[0], send[0], messages, type.dtype, 1, streams_[0]));
    EXPECT_KEEL_OK(keel_recv(comms_[1], receive[1], messages, type.dtype, 0, streams_[1]));
    Bytes sent = piece(0);
    sent.resize(messages * type.size);
    EXPECT_EQ(download<uint8_t>(1, receive[1], sent.size()), sent);
    synchronize();
  }
}

TEST_F(ElementTypesTest, CountsThatOverflowAreRefused) {
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    void* const data = allocate(rank, 64);
    for (const uint64_t count : {uint64_t{1} << 63, UINT64_MAX, uint64_t{1} << 60}) {
      EXPECT_EQ(keel_all_reduce(comms_[rank], data, data, count, KEEL_COMPLEX128, KEEL_SUM,
                                streams_[rank]),
                KEEL_INVALID_ARGUMENT);
    }
  }
}

}  // namespace
}  // namespace keel
