// SPDX-License-Identifier: Apache-2.0
// matmul through the ABI against a float64 reference, and the threads it uses.
#include <cmath>
#include <filesystem>
#include <iterator>
#include <keel/float_types.hpp>
#include <limits>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

template <typename Small>
struct Narrow;

struct Case;

// The layout of a product's b.
enum class By { kPlain, kPacked };

class CpuMatmul : public CpuOps {
 protected:
  // |bias| may be null.
  void multiply(By by, const Case& with, const keel_tensor* a, const keel_tensor* b,
                const keel_tensor* bias, const keel_tensor* c);
  template <typename Small>
  void expect_products_of(const Narrow<Small>& type);
};

INSTANTIATE_TEST_SUITE_P(Cores, CpuMatmul, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

struct Shape {
  int64_t m, n, k;
};

struct Case {
  Shape shape;
  bool transposed_a, transposed_b;
  double alpha, beta;
  bool biased;
  int64_t activation = 0;

  std::vector<keel_attribute> attributes() const {
    return {integer(transposed_a), integer(transposed_b), real(alpha), real(beta),
            integer(activation)};
  }
};

void CpuMatmul::multiply(By by, const Case& with, const keel_tensor* a, const keel_tensor* b,
                         const keel_tensor* bias, const keel_tensor* c) {
  if (by == By::kPlain) return run(KEEL_OP_MATMUL, {a, b, bias}, {c}, with.attributes());
  DeviceTensor packed(device(), b->dtype,
                      {KEEL_PACKED_EXTENT(with.shape.k), KEEL_PACKED_EXTENT(with.shape.n)});
  run(KEEL_OP_PACK_WEIGHTS, {b}, {packed}, {integer(with.transposed_b)});
  run(KEEL_OP_PACKED_MATMUL, {a, packed, bias}, {c},
      {integer(with.transposed_a), real(with.alpha), real(with.beta), integer(with.activation)});
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Shape shape : {Shape{1, 1, 1},
                            {3, 5, 7},
                            {64, 64, 64},
                            {129, 131, 127},
                            {1, 300, 200},
                            {300, 1, 200},
                            {257, 40, 300},
                            {40, 500, 129},
                            {128, 64, 192}}) {
    for (const bool transposed_a : {false, true}) {
      for (const bool transposed_b : {false, true}) {
        all.push_back({shape, transposed_a, transposed_b, 1.0, 0.0, false});
        all.push_back({shape, transposed_a, transposed_b, 0.5, -2.0, true});
        all.push_back({shape, transposed_a, transposed_b, -1.5, 0.0, true});
        all.push_back({shape, transposed_a, transposed_b, 1.0, 1.0, false});
        const int64_t activation = 1 + static_cast<int64_t>(all.size()) / 5 % 3;
        all.push_back({shape, transposed_a, transposed_b, 0.2, 0.0, true, activation});
      }
    }
  }
  // More than is widened at once, along each side.
  all.push_back({{540, 820, 40}, false, true, 0.2, 0.5, true, 3});
  all.push_back({{540, 820, 40}, true, false, 0.2, 0.5, true, 0});
  all.push_back({{20, 270, 2500}, true, true, 0.1, 0.5, false, 2});
  // Vectors longer than the elements processed at once.
  for (const bool transposed : {false, true}) {
    all.push_back({{1, 5000, 9}, transposed, transposed, 0.5, -2.0, true, 1});
    all.push_back({{5000, 1, 9}, transposed, !transposed, 0.5, -2.0, true, 3});
    all.push_back({{1, 3, 4700}, transposed, transposed, 1.0, 0.0, false});
    all.push_back({{2, 1, 4700}, transposed, transposed, 1.0, 1.0, false});
  }
  // Few rows of a large b, on one core and on each of two.
  all.push_back({{3, 1030, 520}, false, false, 0.5, -2.0, true, 1});
  all.push_back({{16, 2100, 510}, true, false, 1.0, 0.0, true, 3});
  // Rows of b at multiples of 2 KiB, whole and as tiles.
  all.push_back({{24, 512, 33}, false, false, 0.5, -2.0, true, 1});
  all.push_back({{70, 1024, 65}, true, false, 1.0, 0.0, false});
  all.push_back({{300, 1024, 40}, false, false, 1.0, 1.0, true});
  // Narrow and of unusual extents, yet large on one core.
  all.push_back({{331, 53, 2001}, false, true, 0.1, 0.5, false, 0});
  return all;
}

double activated(int64_t activation, double t) {
  const double cubic = std::sqrt(2 / std::acos(-1.0)) * (t + 0.044715 * t * t * t);
  switch (activation) {
    case 1:
      return t / (1 + std::exp(-2 * cubic));
    case 2:
      return 0.5 * t * std::erfc(-t / std::sqrt(2.0));
    case 3:
      return t / (1 + std::exp(-t));
    default:
      return t;
  }
}

// activation(alpha * op(a) op(b) + beta * c + bias) at (i, j), and the sum of magnitudes, which
// bounds the rounding error.
struct Reference {
  const Case& with;
  const std::vector<float>&a, &b, &c, &bias;

  double at(int64_t i, int64_t j, double* out_magnitude) const {
    const auto [m, n, k] = with.shape;
    double sum = 0, magnitude = 0;
    for (int64_t p = 0; p < k; ++p) {
      const double x = a[static_cast<size_t>(with.transposed_a ? p * m + i : i * k + p)];
      const double y = b[static_cast<size_t>(with.transposed_b ? j * k + p : p * n + j)];
      sum += x * y;
      magnitude += std::abs(x * y);
    }
    const double before = with.beta == 0 ? 0 : with.beta * c[static_cast<size_t>(i * n + j)];
    const double added = with.biased ? bias[static_cast<size_t>(j)] : 0;
    *out_magnitude = std::abs(with.alpha) * magnitude + std::abs(before) + std::abs(added);
    return activated(with.activation, with.alpha * sum + before + added);
  }
};

void expect_product(const std::vector<float>& actual, const Reference& reference,
                    double sum_tolerance, double result_tolerance) {
  const auto [m, n, k] = reference.with.shape;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double magnitude = 0;
      const double want = reference.at(i, j, &magnitude);
      const double got = actual[static_cast<size_t>(i * n + j)];
      ASSERT_LE(std::abs(got - want), sum_tolerance * magnitude + result_tolerance * std::abs(want))
          << m << "x" << n << "x" << k << " at " << i << "," << j;
    }
  }
}

template <typename Element, typename Convert>
std::vector<float> widened(const std::vector<Element>& values, Convert convert) {
  std::vector<float> result;
  for (const Element value : values) result.push_back(convert(value));
  return result;
}

TEST_P(CpuMatmul, InFloat32) {
  for (const Case& with : cases()) {
    const auto [m, n, k] = with.shape;
    const auto a = random_values(static_cast<size_t>(m * k), 1);
    const auto b = random_values(static_cast<size_t>(k * n), 2);
    const auto bias = random_values(static_cast<size_t>(n), 3);
    auto c = random_values(static_cast<size_t>(m * n), 4);
    // beta 0 must not read c.
    if (with.beta == 0) std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
    const DeviceTensor ta = with.transposed_a ? floats({k, m}, a) : floats({m, k}, a);
    const DeviceTensor tb = with.transposed_b ? floats({n, k}, b) : floats({k, n}, b);
    const DeviceTensor tbias = floats({n}, bias);
    for (const By by : {By::kPlain, By::kPacked}) {
      const DeviceTensor tc = floats({m, n}, c);
      multiply(by, with, ta, tb, with.biased ? static_cast<const keel_tensor*>(tbias) : nullptr,
               tc);
      expect_product(values(tc), {with, a, b, c, bias}, 2e-6, with.activation == 0 ? 0 : 2e-6);
    }
  }
}

// Products of a 16-bit type, into float32 and into the same type; |rounding| is half the distance
// between neighbours. Rounding the sum before the activation would cause an error of several
// distances where gelu falls to 0.
template <typename Small>
struct Narrow {
  keel_dtype dtype;
  Small (*narrow)(float);
  double rounding;
};

template <typename Small>
void CpuMatmul::expect_products_of(const Narrow<Small>& type) {
  const auto wide = [](Small value) { return to_float(value); };
  for (const Case& with : cases()) {
    const auto [m, n, k] = with.shape;
    const auto drawn = [&](int64_t count, uint32_t seed) {
      return narrowed<Small>(random_values(static_cast<size_t>(count), seed), type.narrow);
    };
    const auto a16 = drawn(m * k, 1), b16 = drawn(k * n, 2), bias16 = drawn(n, 3);
    const auto c16 = drawn(m * n, 4);
    const auto a = widened(a16, wide), b = widened(b16, wide);
    const auto bias = widened(bias16, wide), c = widened(c16, wide);
    const DeviceTensor ta =
        with.transposed_a ? tensor(type.dtype, {k, m}, a16) : tensor(type.dtype, {m, k}, a16);
    const DeviceTensor tb =
        with.transposed_b ? tensor(type.dtype, {n, k}, b16) : tensor(type.dtype, {k, n}, b16);
    const DeviceTensor tbias = tensor(type.dtype, {n}, bias16);
    const keel_tensor* const added = with.biased ? static_cast<const keel_tensor*>(tbias) : nullptr;
    for (const By by : {By::kPlain, By::kPacked}) {
      const DeviceTensor c_narrow = tensor(type.dtype, {m, n}, c16), c_wide = floats({m, n}, c);
      multiply(by, with, ta, tb, added, c_wide);
      expect_product(values(c_wide), {with, a, b, c, bias}, 2e-6, 2e-6);
      multiply(by, with, ta, tb, added, c_narrow);
      expect_product(widened(values<Small>(c_narrow), wide), {with, a, b, c, bias}, 2e-6,
                     type.rounding);
    }
  }
}

TEST_P(CpuMatmul, InBfloat16) {
  expect_products_of<bfloat16_t>({KEEL_BFLOAT16, to_bfloat16, 0.00391});
}

TEST_P(CpuMatmul, InFloat16) {
  expect_products_of<float16_t>({KEEL_FLOAT16, to_float16, 0.00049});
}

// The limits of the activations at both ends, and NaN.
TEST_P(CpuMatmul, ActivationsOfInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  const DeviceTensor x = floats({3, 1}, {infinity, -infinity, std::nanf("")});
  const DeviceTensor one = floats({1, 1}, {1});
  DeviceTensor c(device(), KEEL_FLOAT32, {3, 1});
  for (int64_t activation = 1; activation <= 3; ++activation) {
    run(KEEL_OP_MATMUL, {x, one}, {c},
        {integer(0), integer(0), real(1), real(0), integer(activation)});
    const std::vector<float> got = values(c);
    EXPECT_EQ(got[0], infinity) << activation;
    EXPECT_EQ(got[1], 0) << activation;
    EXPECT_TRUE(std::isnan(got[2])) << activation;
  }
}

TEST_P(CpuMatmul, BatchesInFloat16) {
  const int64_t batch = 5, m = 9, n = 33, k = 70;
  const auto a16 = narrowed<float16_t>(random_values(batch * m * k, 1), to_float16);
  const auto b16 = narrowed<float16_t>(random_values(batch * k * n, 2), to_float16);
  const DeviceTensor a = tensor(KEEL_FLOAT16, {batch, m, k}, a16);
  const DeviceTensor b = tensor(KEEL_FLOAT16, {batch, n, k}, b16);
  DeviceTensor c(device(), KEEL_FLOAT32, {batch, m, n});
  run(KEEL_OP_BATCHED_MATMUL, {a, b}, {c}, {integer(0), integer(1), real(0.5), real(0)});
  expect_near(
      values(c),
      [&](size_t index) {
        const size_t each = index / (m * n), row = index / n % m, column = index % n;
        double sum = 0;
        for (size_t p = 0; p < k; ++p) {
          sum += double{to_float(a16[(each * m + row) * k + p])} *
                 double{to_float(b16[(each * n + column) * k + p])};
        }
        return 0.5 * sum;
      },
      1e-6, 1e-4);
}

TEST_P(CpuMatmul, OfViews) {
  // a: columns 3 to 8 of a [6, 10]; b: a [9, 7] seen as [7, 9] transposed; c: the
  // first 9 columns of a [6, 12].
  const auto data_a = random_values(60, 1), data_b = random_values(63, 2);
  DeviceTensor a = floats({6, 10}, data_a), b = floats({9, 7}, data_b);
  DeviceTensor c = floats({6, 12}, std::vector<float>(72, 77.0f));
  keel_tensor &va = a.view(), &vb = b.view(), &vc = c.view();
  va.shape[1] = 7;
  va.byte_offset = 3 * sizeof(float);
  std::swap(vb.shape[0], vb.shape[1]);
  std::swap(vb.strides[0], vb.strides[1]);
  vc.shape[1] = 9;
  run(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0), integer(0)});
  const auto result = download<float>(stream_, c.data(), 72);
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j < 12; ++j) {
      double want = j < 9 ? 0 : 77;
      for (size_t p = 0; j < 9 && p < 7; ++p)
        want += double{data_a[i * 10 + 3 + p]} * data_b[j * 7 + p];
      ASSERT_NEAR(result[i * 12 + j], want, 1e-5);
    }
  }
  va.strides[1] = 2;
  EXPECT_EQ(
      query(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0), integer(0)})
          .level,
      KEEL_OP_NONE);
}

TEST_P(CpuMatmul, OfAColumnIntoAColumn) {
  // c: column 1 of a [5, 3]; b: column 2 of a [4, 3].
  const auto data_a = random_values(20, 1), data_b = random_values(12, 2);
  const auto data_c = random_values(15, 3);
  const DeviceTensor a = floats({5, 4}, data_a);
  DeviceTensor b = floats({4, 3}, data_b), c = floats({5, 3}, data_c);
  b.view().shape[1] = 1;
  b.view().byte_offset = 2 * sizeof(float);
  c.view().shape[1] = 1;
  c.view().byte_offset = sizeof(float);
  const DeviceTensor bias = floats({1}, {0.25F});
  run(KEEL_OP_MATMUL, {a, b, bias}, {c}, {integer(0), integer(0), real(2), real(3), integer(0)});
  const auto result = download<float>(stream_, c.data(), 15);
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      double want = data_c[i * 3 + j];
      if (j == 1) {
        want = 3 * want + 0.25;
        for (size_t p = 0; p < 4; ++p) want += 2.0 * data_a[i * 4 + p] * data_b[p * 3 + 2];
      }
      ASSERT_NEAR(result[i * 3 + j], want, 1e-5) << i << "," << j;
    }
  }
}

TEST_P(CpuMatmul, OverNothingIsBetaTimesC) {
  DeviceTensor a(device(), KEEL_FLOAT32, {2, 0}), b(device(), KEEL_FLOAT32, {0, 3});
  const DeviceTensor c = floats({2, 3}, {1, 2, 3, 4, 5, 6}), bias = floats({3}, {10, 20, 30});
  run(KEEL_OP_MATMUL, {a, b, bias}, {c}, {integer(0), integer(0), real(1), real(2), integer(0)});
  EXPECT_EQ(values(c), (std::vector<float>{12, 24, 36, 18, 30, 42}));
  run(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0), integer(0)});
  EXPECT_EQ(values(c), std::vector<float>(6, 0.0f));
}

// Results with packed weights do not depend on gaps in a and c, which a rank has that multiplies
// its part of the columns.
TEST_P(CpuMatmul, ByPackedWeightsBetweenGaps) {
  const int64_t m = 70, n = 200, k = 150, gap = 3;
  const Case with = {{m, n, k}, false, false, 1.0, 1.0, false};
  const auto drawn = [](int64_t count, uint32_t seed) {
    return narrowed<bfloat16_t>(random_values(static_cast<size_t>(count), seed), to_bfloat16);
  };
  const auto a16 = drawn(m * (k + gap), 1), b16 = drawn(k * n, 2);
  DeviceTensor a = tensor(KEEL_BFLOAT16, {m, k + gap}, a16);
  a.view().shape[1] = k;
  const DeviceTensor b = tensor(KEEL_BFLOAT16, {k, n}, b16);
  for (const keel_dtype dtype : {KEEL_FLOAT32, KEEL_BFLOAT16}) {
    std::vector<std::vector<float>> results;
    for (const By by : {By::kPlain, By::kPacked}) {
      DeviceTensor c(device(), dtype, {m, n + gap});
      const std::vector<char> ones(c.count() * kit::dtype_size(dtype), 1);
      upload(stream_, c.data(), ones);
      c.view().shape[1] = n;
      multiply(by, with, a, b, nullptr, c);
      const auto count = static_cast<size_t>(m * (n + gap));
      results.push_back(dtype == KEEL_FLOAT32
                            ? download<float>(stream_, c.data(), count)
                            : widened(download<bfloat16_t>(stream_, c.data(), count),
                                      [](bfloat16_t value) { return to_float(value); }));
    }
    const double rounding = dtype == KEEL_FLOAT32 ? 1e-5 : 0.008;
    expect_near(
        results[1], [&](size_t i) { return results[0][i]; }, rounding, 1e-4);
  }
}

TEST_P(CpuMatmul, StartsNoThreadsOfItsOwn) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  const auto a = random_values(512 * 512, 1);
  const DeviceTensor x = floats({512, 512}, a);
  DeviceTensor y(device(), KEEL_FLOAT32, {512, 512});
  run(KEEL_OP_MATMUL, {x, x}, {y}, {integer(0), integer(0), real(1), real(0), integer(0)});
  // Fewer if a thread of the previous test was still exiting.
  EXPECT_LE(threads(), before);
}

}  // namespace
}  // namespace keel::cpu::testing
