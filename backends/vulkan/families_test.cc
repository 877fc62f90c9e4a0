// SPDX-License-Identifier: Apache-2.0
// elementwise, reduce, gather and scatter of the built plugin, where the cases of the schema table
// do not look: large arguments, exact remainders, large shapes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>

#include "backends/vulkan/ops_fixture.h"
#include "backends/vulkan/shaders.h"

namespace keel::vulkan {

namespace {

// Functions, dtypes, strides and axes are values: a new one needs no module.
TEST(VulkanShaders, ElementwiseAndReduceHaveAtMostTwelve) {
#define KEEL_NAME(shader, module, shape, local_size) #module,
#define KEEL_NAME_TWO(...) KEEL_VULKAN_TWICE(KEEL_NAME, __VA_ARGS__)
  constexpr std::string_view kModules[] = {KEEL_VULKAN_SHADERS(KEEL_NAME, KEEL_NAME_TWO)};
#undef KEEL_NAME_TWO
#undef KEEL_NAME
  const auto count = std::ranges::count_if(kModules, [](std::string_view module) {
    return module.starts_with("elementwise") || module.starts_with("reduce");
  });
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 12);
}

class VulkanFamilies : public VulkanOps {
 protected:
  static std::vector<keel_attribute> function(int64_t number, double a = 0, double b = 0) {
    return {integer(number), real(1), real(a), real(b), real(0), integer(0), integer(0)};
  }

  // The elements of function(a, b) of float32.
  std::vector<float> elementwise(int64_t number, const std::vector<float>& a,
                                 const std::vector<float>& b) {
    const auto n = static_cast<int64_t>(a.size());
    void* const y = alloc(a.size() * sizeof(float));
    run({KEEL_OP_ELEMENTWISE,
         {floats(upload(a), {n}), floats(upload(b), {n}), {}},
         {floats(y, {n})},
         function(number)});
    return download<float>(y, a.size());
  }
};

// Units of the last place of |expected| between the two.
double distance(float got, double expected) {
  const double unit = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
  return std::fabs(got - expected) / unit;
}

TEST_F(VulkanFamilies, SineOfEveryExponent) {
  std::vector<float> x;
  for (int exponent = -20; exponent <= 127; ++exponent) {
    for (const float mantissa : {1.0F, 1.1234567F, 1.5F, 1.9999999F}) {
      x.push_back(std::ldexp(mantissa, exponent));
      x.push_back(-x.back());
    }
  }
  for (int i = -8; i <= 8; ++i) x.push_back(static_cast<float>(i * 0.78539816339744831));
  const auto sine = elementwise(KEEL_ELEMENTWISE_FUNCTION_SIN, x, x);
  const auto cosine = elementwise(KEEL_ELEMENTWISE_FUNCTION_COS, x, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(distance(sine[i], std::sin(double{x[i]})), x[i] == 0 ? 0 : 4) << "sin " << x[i];
    EXPECT_LE(distance(cosine[i], std::cos(double{x[i]})), 4) << "cos " << x[i];
  }
}

TEST_F(VulkanFamilies, PowersOfEverySize) {
  std::vector<float> a;
  std::vector<float> b;
  for (const float base : {0.001F, 0.7F, 0.99999F, 1.00001F, 1.5F, 2.0F, 10.0F, 12345.678F}) {
    for (const float exponent : {-7.5F, -2.0F, -0.3F, 0.5F, 1.0F, 2.0F, 3.0F, 8.7F}) {
      a.insert(a.end(), {base, -base});
      b.insert(b.end(), {exponent, std::nearbyint(exponent)});
    }
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float base : {0.0F, -0.0F, kInfinity, -kInfinity, -1.0F, 0.5F, -8.0F}) {
    for (const float exponent : {0.0F, 3.0F, -3.0F, 2.0F, 0.5F, -0.5F, kInfinity, -kInfinity}) {
      a.push_back(base);
      b.push_back(exponent);
    }
  }
  const auto got = elementwise(KEEL_ELEMENTWISE_FUNCTION_POW, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto expected = std::pow(double{a[i]}, double{b[i]});
    if (std::isfinite(expected) && expected != 0) {
      EXPECT_LE(distance(got[i], expected), 6) << a[i] << " ^ " << b[i];
    } else if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(got[i])) << a[i] << " ^ " << b[i];
    } else {
      EXPECT_EQ(got[i], expected) << a[i] << " ^ " << b[i];
    }
  }
}

TEST_F(VulkanFamilies, RemaindersAreExact) {
  std::vector<float> a = random_floats(2000, 1, 1e6F);
  std::vector<float> b = random_floats(2000, 2, 3.0F);
  for (const float large : {3e38F, 1e20F, 16777217.0F}) {
    a.insert(a.end(), {large, -large});
    b.insert(b.end(), {0.3F, 1e-3F});
  }
  const auto rest = elementwise(KEEL_ELEMENTWISE_FUNCTION_FMOD, a, b);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(rest[i], std::fmod(a[i], b[i])) << a[i];
}

TEST_F(VulkanFamilies, IntegersDividedByZeroDoNotTrap) {
  const std::vector<int64_t> a = {5, -5, INT64_MIN, 7, 0};
  const std::vector<int64_t> b = {0, 0, -1, -2, 0};
  const auto n = static_cast<int64_t>(a.size());
  void* const y = alloc(a.size() * sizeof(int64_t));
  const Call probe(KEEL_OP_ELEMENTWISE,
                   {kit::make_tensor(upload(a), KEEL_INT64, {n}),
                    kit::make_tensor(upload(b), KEEL_INT64, {n}),
                    {}},
                   {kit::make_tensor(y, KEEL_INT64, {n})},
                   function(KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV));
  if (query(probe).level == KEEL_OP_NONE) GTEST_SKIP() << "the device lacks shaderInt64";
  for (const int64_t number :
       {KEEL_ELEMENTWISE_FUNCTION_DIV, KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV,
        KEEL_ELEMENTWISE_FUNCTION_REMAINDER, KEEL_ELEMENTWISE_FUNCTION_FMOD}) {
    run({KEEL_OP_ELEMENTWISE, probe.inputs, probe.outputs, function(number)});
    const auto got = download<int64_t>(y, a.size());
    if (number == KEEL_ELEMENTWISE_FUNCTION_DIV) {
      EXPECT_EQ(got[3], -3);
    }
    if (number == KEEL_ELEMENTWISE_FUNCTION_FLOOR_DIV) {
      EXPECT_EQ(got[3], -4);
    }
  }
}

TEST_F(VulkanFamilies, Int64ConvertedWithoutInt64) {
  std::vector<int64_t> x = {0,
                            1,
                            -1,
                            INT64_MAX,
                            INT64_MIN,
                            (int64_t{1} << 32) + 1,
                            -(1LL << 40),
                            (int64_t{1} << 53) + (int64_t{1} << 29) + 1,
                            0xffffffff,
                            16777217};
  std::mt19937_64 engine(5);
  for (int i = 0; i < 1000; ++i) x.push_back(static_cast<int64_t>(engine()) >> (i % 64));
  const auto n = static_cast<int64_t>(x.size());
  void* const y = alloc(x.size() * sizeof(int64_t));
  run({KEEL_OP_ELEMENTWISE,
       {kit::make_tensor(upload(x), KEEL_INT64, {n}), {}, {}},
       {floats(y, {n})},
       function(KEEL_ELEMENTWISE_FUNCTION_COPY)});
  const auto got = download<float>(y, x.size());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(x[i])) << x[i];
  run({KEEL_OP_ELEMENTWISE,
       {floats(upload(got), {n}), {}, {}},
       {kit::make_tensor(y, KEEL_INT64, {n})},
       function(KEEL_ELEMENTWISE_FUNCTION_COPY)});
  const auto back = download<int64_t>(y, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::fabs(got[i]) < 0x1p63F) {
      EXPECT_EQ(back[i], static_cast<int64_t>(got[i])) << got[i];
    }
  }
}

// Calls of 2^17 elements and more have a pipeline for their function.
TEST_F(VulkanFamilies, LargeCallsEqualSmallOnes) {
  constexpr size_t kFew = 1000;
  constexpr size_t kMany = 140001;
  const auto values = random_floats(kMany, 6);
  void* const x = upload(values);
  void* const y = alloc(kMany * sizeof(float));
  for (const int64_t number : {KEEL_ELEMENTWISE_FUNCTION_COPY, KEEL_ELEMENTWISE_FUNCTION_ERF,
                               KEEL_ELEMENTWISE_FUNCTION_ADD, KEEL_ELEMENTWISE_FUNCTION_NORMAL,
                               KEEL_ELEMENTWISE_FUNCTION_BERNOULLI}) {
    std::vector<float> results[2];
    for (const size_t count : {kFew, kMany}) {
      const keel_tensor a = floats(x, {static_cast<int64_t>(count)});
      const keel_tensor out = floats(y, {static_cast<int64_t>(count)});
      run({KEEL_OP_ELEMENTWISE, {a, {}, {}}, {out}, function(number, 0, 0.5)});
      results[count == kMany] = download<float>(y, count);
    }
    for (size_t i = 0; i < kFew; ++i) {
      EXPECT_NEAR(results[0][i], results[1][i], 1e-6 * std::fabs(results[0][i])) << number;
    }
    if (number == KEEL_ELEMENTWISE_FUNCTION_ADD) {
      EXPECT_EQ(results[1].back(), values.back() + 0.5F);
    }
  }
}

TEST_F(VulkanFamilies, LongReductionsInSlices) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kColumns = 300007;
  auto x = random_floats(kRows * kColumns, 9);
  x[kColumns + 200000] = 77.0F;
  const keel_tensor rows = floats(upload(x), {kRows, kColumns});
  keel_tensor columns = rows;  // the same reductions, of the transposed tensor
  std::swap(columns.shape[0], columns.shape[1]);
  std::swap(columns.strides[0], columns.strides[1]);
  void* const y = alloc(64);
  for (const bool by_rows : {true, false}) {
    const keel_tensor in = by_rows ? rows : columns;
    const auto reduce = [&](int64_t number, keel_dtype dtype) {
      const keel_tensor out =
          by_rows ? kit::make_tensor(y, dtype, {kRows, 1}) : kit::make_tensor(y, dtype, {1, kRows});
      run({KEEL_OP_REDUCE, {in}, {out}, {integer(number)}});
    };
    std::vector<double> sums(kRows);
    std::vector<double> log_sums(kRows);
    for (size_t i = 0; i < x.size(); ++i) sums[i / kColumns] += x[i];
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (size_t c = 0; c < kColumns; ++c) sum += std::exp(double{x[r * kColumns + c]} - 77);
      log_sums[r] = 77 + std::log(sum);
    }
    reduce(KEEL_REDUCE_FUNCTION_SUM, KEEL_FLOAT32);
    expect_near(y, sums, 1e-5, 1e-2, "sum");
    reduce(KEEL_REDUCE_FUNCTION_LOG_SUM_EXP, KEEL_FLOAT32);
    expect_near(y, log_sums, 1e-6, 0, "log_sum_exp");
    reduce(KEEL_REDUCE_FUNCTION_ARGMAX, KEEL_INT64);
    EXPECT_EQ(download<int64_t>(y, kRows)[1], 200000);
  }
}

TEST_F(VulkanFamilies, ScatterOfOneLongLine) {
  constexpr int64_t kTerms = 20011;
  constexpr int64_t kExtent = 509;
  const auto x = random_floats(kTerms, 3);
  const auto index = random_ints(kTerms, 4, -3, static_cast<int32_t>(kExtent) + 2);
  std::vector<float> stored(kExtent, 5.0F);
  std::vector<double> added(kExtent, 5.0);
  for (size_t i = 0; i < x.size(); ++i) {
    if (index[i] < 0 || index[i] >= kExtent) continue;
    stored[static_cast<size_t>(index[i])] = x[i];
    added[static_cast<size_t>(index[i])] += x[i];
  }
  const keel_tensor from = floats(upload(x), {kTerms});
  const keel_tensor places = ints(upload(index), {kTerms});
  void* const y = upload(std::vector<float>(kExtent, 5.0F));
  run({KEEL_OP_SCATTER, {from, places}, {floats(y, {kExtent})}, {integer(0), integer(0)}});
  EXPECT_EQ(download<float>(y, kExtent), stored);
  void* const sum = upload(std::vector<float>(kExtent, 5.0F));
  run({KEEL_OP_SCATTER, {from, places}, {floats(sum, {kExtent})}, {integer(0), integer(1)}});
  expect_near(sum, added, 1e-5, 1e-5, "scatter add");
}

}  // namespace

}  // namespace keel::vulkan
