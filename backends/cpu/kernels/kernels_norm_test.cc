// SPDX-License-Identifier: Apache-2.0
// The rows of normalisations and softmax, in each instruction set of this processor and for each
// float type.
#include "backends/cpu/kernels/kernels_norm.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace keel::cpu::kernels {
namespace {

constexpr int64_t kCount = 1237;  // two blocks, and a tail for every vector length

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

// A row in memory as |dtype|; values() returns the rounded elements.
class Row {
 public:
  Row(keel_dtype dtype, uint32_t seed, float center = 0) : Row(dtype) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal(center, 1.0f);
    std::vector<float> drawn(kCount);
    for (float& value : drawn) value = normal(generator);
    set(drawn);
  }
  explicit Row(keel_dtype dtype) : dtype_(dtype), bytes_(kCount * (is_wide() ? 4 : 2)) {}

  void set(const std::vector<float>& values) {
    if (is_wide()) {
      std::copy(values.begin(), values.end(), reinterpret_cast<float*>(bytes_.data()));
    } else {
      cast_function(KEEL_FLOAT32, dtype_)(values.data(), bytes_.data(), kCount);
    }
  }
  std::vector<double> values() const {
    std::vector<float> wide(kCount);
    if (is_wide()) {
      std::copy_n(reinterpret_cast<const float*>(bytes_.data()), kCount, wide.begin());
    } else {
      cast_function(dtype_, KEEL_FLOAT32)(bytes_.data(), wide.data(), kCount);
    }
    return {wide.begin(), wide.end()};
  }
  ReadFloats read() const { return {bytes_.data(), dtype_}; }
  WrittenFloats written() { return {bytes_.data(), dtype_}; }
  // Relative rounding error of an element.
  double relative() const {
    return dtype_ == KEEL_FLOAT32 ? 2e-6 : dtype_ == KEEL_FLOAT16 ? 0x1p-11 : 0x1p-8;
  }

 private:
  bool is_wide() const { return dtype_ == KEEL_FLOAT32; }

  keel_dtype dtype_;
  std::vector<char> bytes_;
};

template <typename Expected>
void expect_near(const Row& actual, const Expected& expected, double absolute) {
  const std::vector<double> got = actual.values();
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = expected(i);
    ASSERT_NEAR(got[i], want, absolute + actual.relative() * std::abs(want)) << i;
  }
}

class NormKernels : public ::testing::TestWithParam<std::tuple<int64_t, keel_dtype>> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(std::get<0>(GetParam())); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  const keel_dtype dtype_ = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Targets, NormKernels,
                         ::testing::Combine(::testing::ValuesIn(targets()),
                                            ::testing::Values(KEEL_FLOAT32, KEEL_FLOAT16,
                                                              KEEL_BFLOAT16)),
                         [](const auto& info) {
                           return std::string(hwy::TargetName(std::get<0>(info.param))) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(NormKernels, MomentsOfWhatLiesFarFromZero) {
  const Row x(dtype_, 1, 1000.0f);
  const std::vector<double> values = x.values();
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / kCount;
  for (const double value : values) variance += (value - mean) * (value - mean) / kCount;
  const Moments got = moments(x.read(), kCount);
  EXPECT_NEAR(got.mean, mean, 1e-6);
  EXPECT_NEAR(got.variance, variance, 1e-6 * variance);
}

// As far as possible from the first elements of a block.
TEST_P(NormKernels, MomentsOfWhatBeginsFarFromTheRest) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, 0.001f);
  std::vector<float> drawn(kCount);
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = normal(generator) + (i % 512 < 32 ? 100 : 0);
  Row x(dtype_);
  x.set(drawn);
  const std::vector<double> values = x.values();
  double mean = 0, variance = 0;
  for (const double value : values) mean += value / kCount;
  for (const double value : values) variance += (value - mean) * (value - mean) / kCount;
  const Moments got = moments(x.read(), kCount);
  EXPECT_NEAR(got.mean, mean, 5e-6 * mean);
  EXPECT_NEAR(got.variance, variance, 1e-5 * variance);
}

TEST_P(NormKernels, MomentsOfWhatIsNotFinite) {
  Row x(dtype_);
  std::vector<float> values(kCount, 1.0f);
  values[700] = std::numeric_limits<float>::infinity();
  x.set(values);
  EXPECT_EQ(moments(x.read(), kCount).mean, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(moments(x.read(), kCount).variance));
  EXPECT_EQ(mean_square(x.read(), kCount), std::numeric_limits<double>::infinity());
  values[3] = -values[700];
  x.set(values);
  EXPECT_TRUE(std::isnan(moments(x.read(), kCount).mean));
}

TEST_P(NormKernels, NormaliseWithAndWithoutBeta) {
  const Row x(dtype_, 1), gamma(dtype_, 2), beta(dtype_, 3);
  const auto from = x.values(), factor = gamma.values(), offset = beta.values();
  const NormFactors factors = {0.25f, 1.5f};
  Row y(dtype_);
  normalise(factors, x.read(), gamma.read(), beta.read(), y.written(), kCount);
  expect_near(
      y, [&](size_t i) { return (from[i] - 0.25) * 1.5 * factor[i] + offset[i]; }, 1e-6);
  normalise(factors, x.read(), gamma.read(), {}, y.written(), kCount);
  expect_near(
      y, [&](size_t i) { return (from[i] - 0.25) * 1.5 * factor[i]; }, 1e-6);
}

TEST_P(NormKernels, NormaliseScaledAndShifted) {
  const Row x(dtype_, 1), gamma(dtype_, 2), beta(dtype_, 3);
  const auto from = x.values(), factor = gamma.values(), offset = beta.values();
  const NormFactors factors = {.mean = 0.25f, .rstd = 1.5f, .scale = 0.5f, .shift = -0.125f};
  Row y(dtype_);
  normalise(factors, x.read(), gamma.read(), beta.read(), y.written(), kCount);
  expect_near(
      y, [&](size_t i) { return ((from[i] * 0.5 - 0.25) * 1.5 - 0.125) * factor[i] + offset[i]; },
      1e-6);
}

TEST_P(NormKernels, MomentsInFloat64OfWhatFloat32HasNoSquaresOf) {
  if (dtype_ == KEEL_FLOAT16) GTEST_SKIP() << "float16 has no number whose square float32 lacks";
  for (const float size : {0x1p126f, 0x1p-100f}) {
    std::mt19937 generator(1);
    std::uniform_real_distribution<float> uniform(-size, size);
    std::vector<float> drawn(kCount);
    for (float& value : drawn) value = uniform(generator);
    Row x(dtype_);
    x.set(drawn);
    const std::vector<double> values = x.values();
    double mean = 0, variance = 0, square = 0;
    for (const double value : values) mean += value / kCount;
    for (const double value : values) variance += (value - mean) * (value - mean) / kCount;
    for (const double value : values) square += value * value / kCount;
    const Moments got = moments_in_float64(x.read(), kCount);
    EXPECT_NEAR(got.mean, mean, 1e-9 * size);
    EXPECT_NEAR(got.variance, variance, 1e-9 * variance);
    EXPECT_NEAR(mean_square_in_float64(x.read(), kCount), square, 1e-9 * square);
  }
}

TEST_P(NormKernels, GradientsAddToTheSumsOfTheirColumns) {
  const Row dy(dtype_, 1), x(dtype_, 2), gamma(dtype_, 3);
  const auto gradient = dy.values(), from = x.values(), factor = gamma.values();
  for (const bool has_mean : {true, false}) {
    const double mean = has_mean ? 0.25 : 0;
    const auto xhat = [&](size_t i) { return (from[i] - mean) * 1.5; };
    double mean_g = 0, slope = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      if (has_mean) mean_g += gradient[i] * factor[i] / kCount;
      slope += gradient[i] * factor[i] * xhat(i) / kCount;
    }
    Row dx(dtype_);
    std::vector<float> dgamma(kCount, 2.0f), dbeta(kCount, 3.0f);
    normalise_backward({static_cast<float>(mean), 1.5f}, dy.read(), x.read(), gamma.read(),
                       dx.written(), dgamma.data(), has_mean ? dbeta.data() : nullptr, kCount);
    expect_near(
        dx, [&](size_t i) { return 1.5 * (gradient[i] * factor[i] - mean_g - xhat(i) * slope); },
        2e-6);
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_NEAR(dgamma[i], 2 + gradient[i] * xhat(i), 3e-6);
      ASSERT_NEAR(dbeta[i], 3 + (has_mean ? gradient[i] : 0), 1e-6);
    }
  }
}

// Non-temporal stores need a row aligned to a cache line: they write no element beyond the row, and
// all elements are the same.
TEST_P(NormKernels, WritePastTheCachesWhatTheyWriteIntoThem) {
  const Row dy(dtype_, 1), x(dtype_, 2), gamma(dtype_, 3), beta(dtype_, 4);
  const NormFactors factors = {0.25f, 1.5f};
  const size_t size = dtype_ == KEEL_FLOAT32 ? 4 : 2;
  constexpr size_t kLine = 64;
  for (const size_t shift : {size_t{0}, size_t{1}}) {
    const size_t begin = kLine + shift * size;
    std::vector<std::vector<std::byte>> written;
    for (const bool past : {false, true}) {
      for (const bool backward : {false, true}) {
        struct alignas(kLine) Line {
          std::byte bytes[kLine];
        };
        std::vector<Line> memory(kCount * size / kLine + 4);
        auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
        std::fill_n(bytes, memory.size() * kLine, std::byte{0x5a});
        const WrittenFloats y(bytes + begin, dtype_, past);
        EXPECT_EQ(y.is_streamed(), past && shift == 0 && dtype_ == KEEL_FLOAT32);
        std::vector<float> sums(2 * kCount);
        if (backward) {
          normalise_backward(factors, dy.read(), x.read(), gamma.read(), y, sums.data(),
                             sums.data() + kCount, kCount);
        } else {
          normalise(factors, x.read(), gamma.read(), beta.read(), y, kCount);
        }
        EXPECT_EQ(bytes[begin - 1], std::byte{0x5a});
        EXPECT_EQ(bytes[begin + kCount * size], std::byte{0x5a});
        written.emplace_back(bytes, bytes + memory.size() * kLine);
      }
    }
    EXPECT_EQ(written[2], written[0]) << shift;
    EXPECT_EQ(written[3], written[1]) << shift;
  }
}

TEST_P(NormKernels, SoftmaxSeesWhatIsNeitherMaskedNorBehindTheLastColumn) {
  Row x(dtype_, 1), y(dtype_);
  std::vector<uint8_t> mask(kCount);
  for (size_t i = 0; i < mask.size(); i += 3) mask[i] = 1;
  const auto from = x.values();
  for (const int64_t visible : {kCount, int64_t{600}, int64_t{2}, int64_t{1}, int64_t{0}}) {
    const auto is_seen = [&](size_t i) {
      return static_cast<int64_t>(i) < visible && mask[i] == 0;
    };
    double sum = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      if (is_seen(i)) sum += std::exp(2 * from[i]);
    }
    softmax({2.0f, visible, mask.data()}, x.read(), y.written(), kCount);
    expect_near(
        y, [&](size_t i) { return is_seen(i) ? std::exp(2 * from[i]) / sum : 0; }, 3e-8);
  }
}

TEST_P(NormKernels, SoftmaxKeepsNaNFromWhatIsHidden) {
  Row x(dtype_), y(dtype_);
  std::vector<float> values(kCount, 1.0f);
  values[5] = std::nanf("");
  values[7] = -std::numeric_limits<float>::infinity();
  x.set(values);
  softmax({1.0f, kCount - 1, nullptr}, x.read(), y.written(), kCount);
  const auto got = y.values();
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_TRUE(std::isnan(got[5]));
  EXPECT_EQ(got[7], 0);
  EXPECT_EQ(got[kCount - 1], 0);
}

TEST_P(NormKernels, SoftmaxBackward) {
  const Row y(dtype_, 1), dy(dtype_, 2);
  const auto value = y.values(), gradient = dy.values();
  double dot = 0;
  for (size_t i = 0; i < value.size(); ++i) dot += value[i] * gradient[i];
  Row dx(dtype_);
  softmax_backward(0.5f, y.read(), dy.read(), dx.written(), kCount);
  expect_near(
      dx, [&](size_t i) { return 0.5 * value[i] * (gradient[i] - dot); }, 2e-5);
}

}  // namespace
}  // namespace keel::cpu::kernels
