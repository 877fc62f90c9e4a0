// SPDX-License-Identifier: Apache-2.0
// The kernels of each instruction set of this processor; the plugin runs only the best one.
#include "backends/cpu/kernels/kernels.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <keel/float_types.hpp>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace keel::cpu::kernels {
namespace {

constexpr int64_t kCount = 1237;  // with a tail for every vector length

std::vector<float> random_values(uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(kCount);
  for (float& value : values) value = normal(generator);
  return values;
}

class Kernels : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<int64_t> targets() {
  std::vector<int64_t> all;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    const int64_t target = left & -left;
    // The targets that kernels are compiled for.
    if (target == HWY_EMU128 || target == HWY_AVX2 || target == HWY_AVX3) all.push_back(target);
  }
  if (all.empty()) all.push_back(hwy::SupportedTargets());
  return all;
}

INSTANTIATE_TEST_SUITE_P(Targets, Kernels, ::testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

void expect_near(const std::vector<float>& actual, const std::function<double(size_t)>& expected,
                 double relative, double absolute) {
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected(i), absolute + relative * std::abs(expected(i))) << i;
  }
}

TEST_P(Kernels, Elementwise) {
  const auto a = random_values(1), b = random_values(2);
  std::vector<float> out(kCount);
  add_f32(a.data(), b.data(), out.data(), kCount);
  expect_near(
      out, [&](size_t i) { return double{a[i]} + b[i]; }, 1e-7, 0);
  scale_f32(a.data(), 3.0f, out.data(), kCount);
  expect_near(
      out, [&](size_t i) { return 3.0 * a[i]; }, 1e-7, 0);
  axpy_f32(a.data(), 3.0f, b.data(), out.data(), kCount);
  expect_near(
      out, [&](size_t i) { return 3.0 * a[i] + b[i]; }, 1e-7, 1e-6);
}

TEST_P(Kernels, ResultsDoNotDependOnHowAnArrayIsCut) {
  const auto a = random_values(3), b = random_values(4);
  std::vector<float> whole(kCount), cut(kCount);
  axpy_f32(a.data(), 0.3f, b.data(), whole.data(), kCount);
  axpy_f32(a.data(), 0.3f, b.data(), cut.data(), 501);
  axpy_f32(a.data() + 501, 0.3f, b.data() + 501, cut.data() + 501, kCount - 501);
  EXPECT_EQ(whole, cut);
  bias_gelu_f32(false, a.data(), nullptr, whole.data(), kCount);
  bias_gelu_f32(false, a.data(), nullptr, cut.data(), 501);
  bias_gelu_f32(false, a.data() + 501, nullptr, cut.data() + 501, kCount - 501);
  EXPECT_EQ(whole, cut);
}

// A line alone, beside other lines, and fewer lines than are processed at once: equal bits.
TEST_P(Kernels, LinesAndAVectorDoNotDependOnTheLinesBeside) {
  const auto rows = random_values(13), x = random_values(14);
  constexpr int64_t kLength = static_cast<int64_t>(kCount) - 2 * kLinesAdded;
  std::vector<bfloat16_t> halves(kCount);
  cast_function(KEEL_FLOAT32, KEEL_BFLOAT16)(rows.data(), halves.data(), kCount);
  for (const bool is_half : {false, true}) {
    const keel_dtype dtype = is_half ? KEEL_BFLOAT16 : KEEL_FLOAT32;
    const void* lines[kLinesAdded];
    for (int64_t n = 0; n < kLinesAdded; ++n) {
      lines[n] = is_half ? static_cast<const void*>(&halves[2 * n]) : &rows[2 * n];
    }
    const auto at = [&](int64_t n, int64_t j) -> double {
      return is_half ? to_float(halves[2 * n + j]) : rows[2 * n + j];
    };
    double sums[kLinesDotted] = {1, 2, 3, 4};
    dot_lines(dtype, lines, kLinesDotted, x.data(), kLength, sums);
    for (int64_t n = 0; n < kLinesDotted; ++n) {
      double wanted = static_cast<double>(n) + 1;
      double magnitude = wanted;
      for (int64_t j = 0; j < kLength; ++j) {
        wanted += at(n, j) * double{x[j]};
        magnitude += std::abs(at(n, j) * double{x[j]});
      }
      EXPECT_NEAR(sums[n], wanted, 1e-5 * magnitude);
      double alone[] = {static_cast<double>(n) + 1};
      dot_lines(dtype, lines + n, 1, x.data(), kLength, alone);
      EXPECT_EQ(alone[0], sums[n]) << n;
    }
    // Three rows together, with a gap behind each row.
    constexpr int64_t kRows = 3, kRow = kLength + 5, kFactors = kLinesAdded + 1;
    std::vector<float> y(kRows * kRow, 0.5f);
    add_lines(dtype, lines, kLinesAdded, kRows, x.data(), kFactors, y.data(), kRow, kLength);
    for (int64_t r = 0; r < kRows; ++r) {
      const float* const factors = x.data() + r * kFactors;
      std::vector<float> alone(kRow, 0.5f);
      for (int64_t n = 0; n < kLinesAdded; ++n) {
        add_lines(dtype, lines + n, 1, 1, factors + n, 0, alone.data(), 0, kLength);
      }
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), y.begin() + r * kRow)) << r;
      alone.resize(kLength);
      expect_near(
          alone,
          [&](size_t j) {
            double sum = 0.5;
            for (int64_t n = 0; n < kLinesAdded; ++n) {
              sum += at(n, static_cast<int64_t>(j)) * double{factors[n]};
            }
            return sum;
          },
          1e-6, 1e-6);
    }
  }
}

TEST_P(Kernels, Gelu) {
  const auto x = random_values(5, 3.0f);
  const auto ones = std::vector<float>(kCount, 1.0f);
  std::vector<float> y(kCount), slope(kCount);
  bias_gelu_f32(false, x.data(), nullptr, y.data(), kCount);
  bias_gelu_backward_f32(false, x.data(), nullptr, ones.data(), slope.data(), kCount);
  const double c = std::sqrt(2.0 / M_PI);
  const auto u = [&](size_t i) { return c * (x[i] + 0.044715 * std::pow(double{x[i]}, 3)); };
  // Without fused products the tail loses the correction of the argument.
  const double relative = GetParam() == HWY_EMU128 ? 1e-5 : 1e-6;
  expect_near(
      y, [&](size_t i) { return x[i] / (1 + std::exp(-2 * u(i))); }, relative, 1e-37);
  expect_near(
      slope,
      [&](size_t i) {
        const double t = std::tanh(u(i));
        return 0.5 * (1 + t) +
               0.5 * x[i] * (1 - t * t) * c * (1 + 3 * 0.044715 * double{x[i]} * x[i]);
      },
      2e-6, 1e-6);
}

// Equally accurate in the tails and in the middle: erfc has no cancellation.
TEST_P(Kernels, GeluByErf) {
  std::vector<float> t(kCount), y(kCount), slope(kCount);
  for (size_t i = 0; i < t.size(); ++i) t[i] = -12.5f + 0.0202f * static_cast<float>(i);
  const std::vector<float> ones(kCount, 1.0f);
  bias_gelu_f32(true, t.data(), nullptr, y.data(), kCount);
  bias_gelu_backward_f32(true, t.data(), nullptr, ones.data(), slope.data(), kCount);
  const auto distribution = [&](size_t i) { return 0.5 * std::erfc(-M_SQRT1_2 * t[i]); };
  const auto density = [&](size_t i) {
    return std::exp(-0.5 * double{t[i]} * t[i]) / std::sqrt(2 * M_PI);
  };
  // Without fused products the exponential loses the rounding error of the square.
  const double relative = GetParam() == HWY_EMU128 ? 1e-5 : 1e-6;
  expect_near(
      y, [&](size_t i) { return t[i] * distribution(i); }, relative, 1e-37);
  expect_near(
      slope, [&](size_t i) { return distribution(i) + t[i] * density(i); }, 2e-6, 1e-6);
  const float ends[] = {-std::numeric_limits<float>::infinity(), -1e30f, 1e30f,
                        std::numeric_limits<float>::quiet_NaN()};
  bias_gelu_f32(true, ends, nullptr, y.data(), 4);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 1e30f);
  EXPECT_TRUE(std::isnan(y[3]));
}

TEST_P(Kernels, Swiglu) {
  const auto gate = random_values(31, 8.0f), up = random_values(32), dy = random_values(33);
  std::vector<float> y(kCount), dgate(kCount), dup(kCount);
  swiglu_f32(gate.data(), up.data(), y.data(), kCount);
  swiglu_backward_f32(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), kCount);
  const auto sigmoid = [&](size_t i) { return 1 / (1 + std::exp(-double{gate[i]})); };
  expect_near(
      y, [&](size_t i) { return gate[i] * sigmoid(i) * up[i]; }, 2e-6, 0);
  expect_near(
      dup, [&](size_t i) { return dy[i] * gate[i] * sigmoid(i); }, 2e-6, 0);
  expect_near(
      dgate,
      [&](size_t i) {
        return double{dy[i]} * up[i] * sigmoid(i) * (1 + gate[i] * (1 - sigmoid(i)));
      },
      2e-6, 2e-6);
}

TEST_P(Kernels, SwigluOfExtremeGatesIsItsLimit) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float ends[] = {-infinity, -std::numeric_limits<float>::max(), -100, 100, 1e37f, infinity};
  const float wanted[] = {0, 0, 0, 100, 1e37f, infinity};
  const float slopes[] = {0, 0, 0, 1, 1, 1};
  for (size_t i = 0; i < std::size(ends); ++i) {
    SCOPED_TRACE(ends[i]);
    const std::vector<float> gate(67, ends[i]),
        ones(67, 1.0f);  // whole vectors and single elements
    std::vector<float> y(67), dgate(67), dup(67), alone(67);
    swiglu_f32(gate.data(), ones.data(), y.data(), 67);
    silu_f32(gate.data(), alone.data(), 67);
    swiglu_backward_f32(gate.data(), ones.data(), ones.data(), dgate.data(), dup.data(), 67);
    EXPECT_EQ(y, std::vector<float>(67, wanted[i]));
    EXPECT_EQ(alone, y);
    EXPECT_EQ(dup, y);
    EXPECT_EQ(dgate, std::vector<float>(67, slopes[i]));
  }
  const std::vector<float> unknown(67, std::numeric_limits<float>::quiet_NaN()), ones(67, 1.0f);
  std::vector<float> dgate(67), dup(67);
  swiglu_backward_f32(unknown.data(), ones.data(), ones.data(), dgate.data(), dup.data(), 67);
  for (size_t i = 0; i < 67; ++i) EXPECT_TRUE(std::isnan(dgate[i]) && std::isnan(dup[i]));
}

TEST_P(Kernels, Rope) {
  const auto x = random_values(41), cosine = random_values(42), sine = random_values(43);
  constexpr int64_t kPairs = kCount / 2;
  std::vector<float> halves(2 * kPairs), pairs(2 * kPairs);
  for (const bool inverse : {false, true}) {
    rotate_halves_f32(x.data(), x.data() + kPairs, cosine.data(), sine.data(), inverse,
                      halves.data(), halves.data() + kPairs, kPairs);
    rotate_pairs_f32(x.data(), cosine.data(), sine.data(), inverse, pairs.data(), kPairs);
    for (size_t j = 0; j < kPairs; ++j) {
      const double c = cosine[j];
      const double s = inverse ? -sine[j] : sine[j];
      const auto expect_turned = [&](double a, double b, float a_out, float b_out) {
        EXPECT_NEAR(a_out, a * c - b * s, 4e-6) << j;
        EXPECT_NEAR(b_out, b * c + a * s, 4e-6) << j;
      };
      expect_turned(x[j], x[j + kPairs], halves[j], halves[j + kPairs]);
      expect_turned(x[2 * j], x[2 * j + 1], pairs[2 * j], pairs[2 * j + 1]);
    }
  }
}

// Known answers of Philox4x32-10, and equal results however an array is split.
TEST_P(Kernels, Dropout) {
  const auto x = random_values(51), bias = random_values(52), residual = random_values(53);
  // The words of counter 0 and key 0 are 6627e8d5, e169c58d, bc57ac4c and 9b00dbd8.
  std::vector<float> y(kCount), cut(kCount);
  dropout_add_f32({0, 0, 0x9b00dbd8, 2.0f}, 0, x.data(), nullptr, nullptr, y.data(), kCount);
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 2 * x[1]);
  EXPECT_EQ(y[2], 2 * x[2]);
  EXPECT_EQ(y[3], 2 * x[3]);
  dropout_add_f32({0, 0, 0x9b00dbd9, 2.0f}, 0, x.data(), nullptr, nullptr, y.data(), 4);
  EXPECT_EQ(y[3], 0);
  // The lower word of the counter overflows on the way.
  const DropoutMask mask = {0x123456789abcdef0u, 0xffffffe0u, 0x80000000u, 2.0f};
  dropout_add_f32(mask, 0, x.data(), bias.data(), residual.data(), y.data(), kCount);
  for (const int64_t at : {4, 500, 128}) {
    dropout_add_f32(mask, 0, x.data(), bias.data(), residual.data(), cut.data(), at);
    dropout_add_f32(mask, at, x.data() + at, bias.data() + at, residual.data() + at,
                    cut.data() + at, kCount - at);
    EXPECT_EQ(y, cut) << at;
  }
  int64_t kept = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == residual[i]) continue;
    EXPECT_EQ(y[i], residual[i] + 2 * (x[i] + bias[i])) << i;
    ++kept;
  }
  EXPECT_NEAR(static_cast<double>(kept) / kCount, 0.5, 0.08);
}

// From any element on, as dropout_add does from element 0 on.
TEST_P(Kernels, DropoutOfSomeElements) {
  const DropoutMask mask = {0x123456789abcdef0u, 0xffffffe0u, 0x40000000u, 2.0f};
  const std::vector<float> ones(kCount, 1.0f);
  const auto p = random_values(54), dp = random_values(55);
  std::vector<float> factors(kCount);
  dropout_add_f32(mask, 0, ones.data(), nullptr, nullptr, factors.data(), kCount);
  for (const int64_t first : {0, 1, 2, 3, 5, 130}) {
    const auto begin = static_cast<size_t>(first);
    std::vector<float> x = p, slopes = dp, weights = p;
    drop_f32(mask, first, x.data() + first, kCount - first);
    dropped_softmax_slope_f32(mask, first, weights.data() + first, 0.25f, 3.0f,
                              slopes.data() + first, kCount - first);
    for (size_t i = 0; i < x.size(); ++i) {
      const float factor = i < begin ? 1 : factors[i];
      EXPECT_EQ(x[i], p[i] * factor) << first << " " << i;
      EXPECT_EQ(weights[i], p[i] * factor) << first << " " << i;
      const float slope = i < begin ? dp[i] : p[i] * 3 * (dp[i] * factor - 0.25f);
      EXPECT_NEAR(slopes[i], slope, 1e-5) << first << " " << i;
    }
  }
  float nan = std::numeric_limits<float>::quiet_NaN();
  drop_f32({0, 0, 0xffffffffu, 2.0f}, 0, &nan, 1);
  EXPECT_TRUE(std::isnan(nan));
}

TEST_P(Kernels, Reductions) {
  const auto x = random_values(6, 4.0f);
  EXPECT_NEAR(sum_f32(x.data(), kCount), std::accumulate(x.begin(), x.end(), 0.0), 1e-3);
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float value : x) sum += std::exp(value - top);
  EXPECT_NEAR(log_sum_exp_f32(x.data(), kCount), top + std::log(sum), 1e-6);
  const float masked = -std::numeric_limits<float>::infinity();
  const std::vector<float> all_masked(kCount, masked);
  EXPECT_EQ(log_sum_exp_f32(all_masked.data(), kCount), masked);
  EXPECT_EQ(sum_exp_f32(all_masked.data(), masked, kCount), 0);
  std::vector<float> out(kCount);
  scaled_softmax_f32(x.data(), {10.0f}, 2.0f, out.data(), kCount);
  expect_near(
      out, [&](size_t i) { return 2 * std::exp(x[i] - 10.0); }, 2e-6, 1e-37);
  std::vector<float> columns(3);
  sum_rows_f32(x.data(), 412, 3, 3, columns.data());
  expect_near(
      columns,
      [&](size_t j) {
        double total = 0;
        for (size_t i = 0; i < 412; ++i) total += x[i * 3 + j];
        return total;
      },
      1e-6, 1e-4);
}

TEST_P(Kernels, SumsOfSquaresAndExponentials) {
  const auto x = random_values(9, 4.0f);
  EXPECT_NEAR(sum_of_squares_f32(x.data(), kCount),
              std::inner_product(x.begin(), x.end(), x.begin(), 0.0), 1e-2);
  EXPECT_EQ(largest_f32(x.data(), kCount), *std::max_element(x.begin(), x.end()));
  double sum = 0;
  for (const float value : x) sum += std::exp(value - 20.0);
  // Exponents of -20 are rounded to 2^-20.
  EXPECT_NEAR(sum_exp_f32(x.data(), 20.0f, kCount), sum, 3e-6 * sum);
}

TEST_P(Kernels, ProbabilitiesByALogSumAndWhatItWasRoundedBy) {
  auto x = random_values(11, 4.0f);
  for (float& value : x) value += 1e5f;
  const double log_sum = log_sum_exp_f32(x.data(), kCount);
  const auto rounded = static_cast<float>(log_sum);
  const auto rest = static_cast<float>(log_sum - static_cast<double>(rounded));
  ASSERT_NE(rest, 0);
  std::vector<float> out(kCount);
  scaled_softmax_f32(x.data(), {rounded, rest}, 1.0f, out.data(), kCount);
  EXPECT_NEAR(std::accumulate(out.begin(), out.end(), 0.0), 1, 2e-6);
  expect_near(
      out, [&](size_t i) { return std::exp(static_cast<double>(x[i]) - log_sum); }, 3e-6, 1e-37);
}

TEST_P(Kernels, ExponentialsOfAllNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x;
  for (float value = -87.3f; value < 88.7f; value += 0.00719f) x.push_back(value);
  std::vector<float> y(x.size());
  const auto count = static_cast<int64_t>(x.size());
  scaled_softmax_f32(x.data(), {0.0f}, 1.0f, y.data(), count);
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp(static_cast<double>(x[i]));
    ASSERT_NEAR(y[i], want, 0x1.8p-23 * want) << x[i];
  }
  // The last values within the range, then the first values beyond, each in whole vectors and
  // alone.
  const float edges[] = {0.0f,     -0.0f,   88.7228317f, 88.7228394f, 1e30f,
                         infinity, -87.34f, -103.0f,     -1e30f,      -infinity};
  const float wanted[] = {1.0f,     1.0f,     static_cast<float>(std::exp(88.72283172607422)),
                          infinity, infinity, infinity,
                          0.0f,     0.0f,     0.0f,
                          0.0f};
  for (size_t i = 0; i < std::size(edges); ++i) {
    const std::vector<float> same(67, edges[i]);
    std::vector<float> out(same.size());
    scaled_softmax_f32(same.data(), {0.0f}, 1.0f, out.data(), 67);
    for (const float value : out) {
      if (std::isinf(wanted[i])) {
        ASSERT_EQ(value, wanted[i]) << edges[i];
      } else {
        ASSERT_NEAR(value, wanted[i], 0x1.8p-23 * static_cast<double>(wanted[i])) << edges[i];
      }
    }
  }
  const std::vector<float> unknown(67, std::numeric_limits<float>::quiet_NaN());
  std::vector<float> out(unknown.size());
  scaled_softmax_f32(unknown.data(), {0.0f}, 1.0f, out.data(), 67);
  for (const float value : out) ASSERT_TRUE(std::isnan(value));
}

TEST_P(Kernels, LargestPassesOverNaN) {
  for (const size_t at : {0, 1, 600, 1235, 1236}) {
    auto x = random_values(10);
    x[at] = 5;
    x[(at + 1) % x.size()] = std::nanf("");
    x[(at + 700) % x.size()] = std::nanf("");
    EXPECT_EQ(largest_f32(x.data(), kCount), 5) << at;
  }
  const std::vector<float> none(kCount, std::nanf(""));
  EXPECT_EQ(largest_f32(none.data(), kCount), -std::numeric_limits<float>::infinity());
}

TEST_P(Kernels, CastsAreThoseOfFloatTypes) {
  // Every float16 and back; every bfloat16 as float16 takes the same path.
  std::vector<float16_t> halves(65536);
  for (uint32_t i = 0; i < 65536; ++i) halves[i] = static_cast<float16_t>(i);
  std::vector<float> wide(65536);
  cast_function(KEEL_FLOAT16, KEEL_FLOAT32)(halves.data(), wide.data(), 65536);
  std::vector<float16_t> back(65536);
  cast_function(KEEL_FLOAT32, KEEL_FLOAT16)(wide.data(), back.data(), 65536);
  for (size_t i = 0; i < halves.size(); ++i) {
    const float expected = to_float(halves[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(to_float(back[i]))) << i;
    } else {
      ASSERT_EQ(wide[i], expected) << i;
      ASSERT_EQ(back[i], halves[i]) << i;
    }
  }
}

TEST_P(Kernels, AdamwMovesAgainstTheGradient) {
  const auto p = random_values(7), g = random_values(8);
  const std::vector<float> zero(kCount, 0.0f);
  std::vector<float> p_out(kCount), m_out(kCount), v_out(kCount);
  const AdamwFactors factors = {1.0f,  0.9f,    0.1f,  0.999f, 0.001f,
                                10.0f, 1000.0f, 1e-8f, 0.01f,  0.0f};
  adamw_f32(factors, p.data(), g.data(), zero.data(), zero.data(), p_out.data(), m_out.data(),
            v_out.data(), kCount);
  // The first step equals the learning rate, for any gradient.
  expect_near(
      p_out, [&](size_t i) { return p[i] - std::copysign(0.01, g[i]); }, 1e-6, 1e-6);
}

}  // namespace
}  // namespace keel::cpu::kernels
