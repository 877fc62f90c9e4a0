// SPDX-License-Identifier: Apache-2.0
// Products of float32 in each instruction set of this processor. Elements are small integers, so
// that sums are exact in any order.
#include "backends/cpu/gemm/gemm.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace keel::cpu::gemm {
namespace {

struct Extents {
  int64_t m, n, k;
};

std::vector<int64_t> targets() {
  std::vector<int64_t> all;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    // The targets that kernels are compiled for.
    if (target == HWY_SCALAR || target == HWY_EMU128 || target == HWY_AVX2 || target == HWY_AVX3) {
      all.push_back(target);
    }
  }
  if (all.empty()) all.push_back(hwy::SupportedTargets());
  return all;
}

constexpr int64_t kGap = 5;  // elements between lines, which must stay untouched
constexpr float kUntouched = 1e6f;

// A matrix of |rows| x |columns| with lines kGap apart, and no gap after the last line.
class Stored {
 public:
  Stored(int64_t rows, int64_t columns, bool transposed, std::mt19937& generator)
      : rows_(rows),
        columns_(columns),
        transposed_(transposed),
        values_(static_cast<size_t>((lines() - 1) * stride() + length()), kUntouched) {
    std::uniform_int_distribution<int> integers(-2, 2);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) at(i, j) = static_cast<float>(integers(generator));
    }
  }

  float& at(int64_t i, int64_t j) {
    return values_[static_cast<size_t>(transposed_ ? j * stride() + i : i * stride() + j)];
  }
  Matrix matrix() { return {values_.data(), stride(), transposed_}; }
  int64_t untouched() const {
    int64_t count = 0;
    for (int64_t line = 0; line + 1 < lines(); ++line) {
      for (int64_t i = 0; i < kGap; ++i) {
        count += values_[static_cast<size_t>(line * stride() + length() + i)] == kUntouched;
      }
    }
    return count;
  }
  int64_t gaps() const { return (lines() - 1) * kGap; }

 private:
  int64_t lines() const { return transposed_ ? columns_ : rows_; }
  int64_t length() const { return transposed_ ? rows_ : columns_; }
  int64_t stride() const { return length() + kGap; }

  const int64_t rows_, columns_;
  const bool transposed_;
  std::vector<float> values_;
};

class Gemm : public ::testing::TestWithParam<std::tuple<int64_t, bool, bool>> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(std::get<0>(GetParam())); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  void check(const Extents& extents, float alpha, float beta) {
    const auto [m, n, k] = extents;
    std::mt19937 generator(static_cast<uint32_t>(m * 31 + n * 7 + k));
    Stored a(m, k, std::get<1>(GetParam()), generator);
    Stored b(k, n, std::get<2>(GetParam()), generator);
    Stored c(m, n, /*transposed=*/false, generator);
    Stored before = c;
    // Row after row, which the compiler vectorises.
    std::vector<float> wanted(static_cast<size_t>(m * n));
    for (int64_t i = 0; i < m; ++i) {
      float* const row = wanted.data() + i * n;
      for (int64_t l = 0; l < k; ++l) {
        const float factor = a.at(i, l);
        for (int64_t j = 0; j < n; ++j) row[j] += factor * b.at(l, j);
      }
    }
    multiply_f32({m, n, k, a.matrix(), b.matrix(), c.matrix(), alpha, beta});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const float sum = alpha * wanted[static_cast<size_t>(i * n + j)];
        const float expected = beta == 0.0f ? sum : sum + beta * before.at(i, j);
        ASSERT_EQ(c.at(i, j), expected)
            << m << "x" << n << "x" << k << " at " << i << ", " << j << ", alpha " << alpha;
      }
    }
    EXPECT_EQ(c.untouched(), c.gaps());
  }
};

INSTANTIATE_TEST_SUITE_P(Targets, Gemm,
                         ::testing::Combine(::testing::ValuesIn(targets()), ::testing::Bool(),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(hwy::TargetName(std::get<0>(info.param))) + "_" +
                                  (std::get<1>(info.param) ? "T" : "N") +
                                  (std::get<2>(info.param) ? "T" : "N");
                         });

// Every remainder of rows and columns of a strip.
TEST_P(Gemm, MultipliesWhatIsLeftOfStrips) {
  for (int64_t m = 1; m <= 30; ++m) {
    check({m, 35, 9}, 1.0f, 0.0f);
    check({5, m + 2, 19}, 1.0f, 0.0f);
    check({33, 17, m}, 1.0f, 0.0f);
  }
}

TEST_P(Gemm, AddsToCWithFactors) {
  check({31, 47, 23}, 0.5f, 1.0f);
  check({31, 47, 23}, -2.0f, 0.25f);
  check({31, 47, 23}, 1.0f, -1.0f);
  check({9, 21, 300}, 2.0f, 0.5f);
  check({100, 66, 1100}, 0.5f, 0.5f);
}

// NaN in c disappears if beta is 0.
TEST_P(Gemm, DoesNotReadCWithoutBeta) {
  std::mt19937 generator(1);
  Stored a(15, 20, std::get<1>(GetParam()), generator);
  Stored b(20, 33, std::get<2>(GetParam()), generator);
  Stored c(15, 33, /*transposed=*/false, generator);
  for (int64_t i = 0; i < 15; ++i) {
    for (int64_t j = 0; j < 33; ++j) c.at(i, j) = std::numeric_limits<float>::quiet_NaN();
  }
  multiply_f32({15, 33, 20, a.matrix(), b.matrix(), c.matrix(), 1.0f, 0.0f});
  for (int64_t i = 0; i < 15; ++i) {
    for (int64_t j = 0; j < 33; ++j) ASSERT_EQ(c.at(i, j), c.at(i, j));
  }
}

// Each path of a product: in place, packed, in several parts of each extent, along k.
TEST_P(Gemm, MultipliesInParts) {
  for (const Extents& extents :
       {Extents{97, 67, 600}, Extents{130, 190, 1030}, Extents{20, 1500, 70}, Extents{8, 40, 4200},
        Extents{64, 50, 256}, Extents{2060, 33, 7}, Extents{2060, 1030, 5}, Extents{15, 1090, 40},
        Extents{100, 300, 40}, Extents{120, 300, 200}, Extents{110, 60, 1100},
        Extents{135, 64, 130}, Extents{17, 64, 1030}}) {
    check(extents, 1.0f, 1.0f);
  }
}

}  // namespace
}  // namespace keel::cpu::gemm
