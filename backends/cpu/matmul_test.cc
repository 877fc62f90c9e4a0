// matmul through the ABI against a float64 reference, and the threads it uses.
#include <cmath>
#include <filesystem>
#include <iterator>
#include <keel/float_types.hpp>
#include <limits>

#include "backends/cpu/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

struct Shape {
  int64_t m, n, k;
};

struct Case {
  Shape shape;
  bool transposed_a, transposed_b;
  double alpha, beta;
  bool biased;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const Shape shape : {Shape{1, 1, 1},
                            {3, 5, 7},
                            {64, 64, 64},
                            {129, 131, 127},
                            {1, 300, 200},
                            {300, 1, 200},
                            {257, 40, 300},
                            {40, 500, 129}}) {
    for (const bool transposed_a : {false, true}) {
      for (const bool transposed_b : {false, true}) {
        all.push_back({shape, transposed_a, transposed_b, 1.0, 0.0, false});
        all.push_back({shape, transposed_a, transposed_b, 0.5, -2.0, true});
        all.push_back({shape, transposed_a, transposed_b, -1.5, 0.0, true});
        all.push_back({shape, transposed_a, transposed_b, 1.0, 1.0, false});
      }
    }
  }
  return all;
}

// alpha * op(a) op(b) + beta * c + bias at (i, j), and the sum of magnitudes that
// bounds the rounding.
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
    return with.alpha * sum + before + added;
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

TEST_P(CpuOps, MatmulInFloat32) {
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
    const DeviceTensor tbias = floats({n}, bias), tc = floats({m, n}, c);
    run(KEEL_OP_MATMUL,
        with.biased ? Tensors{ta, tb, tbias} : Tensors{ta, tb, static_cast<keel_tensor*>(nullptr)},
        {tc},
        {integer(with.transposed_a), integer(with.transposed_b), real(with.alpha),
         real(with.beta)});
    expect_product(values(tc), {with, a, b, c, bias}, 2e-6, 0);
  }
}

TEST_P(CpuOps, MatmulInBfloat16) {
  const auto to_float_of = [](bfloat16_t value) { return to_float(value); };
  for (const Case& with : cases()) {
    const auto [m, n, k] = with.shape;
    const auto a16 =
        narrowed<bfloat16_t>(random_values(static_cast<size_t>(m * k), 1), to_bfloat16);
    const auto b16 =
        narrowed<bfloat16_t>(random_values(static_cast<size_t>(k * n), 2), to_bfloat16);
    const auto bias16 = narrowed<bfloat16_t>(random_values(static_cast<size_t>(n), 3), to_bfloat16);
    const auto c16 =
        narrowed<bfloat16_t>(random_values(static_cast<size_t>(m * n), 4), to_bfloat16);
    const auto a = widened(a16, to_float_of), b = widened(b16, to_float_of);
    const auto bias = widened(bias16, to_float_of), c = widened(c16, to_float_of);
    const DeviceTensor ta =
        with.transposed_a ? tensor(KEEL_BFLOAT16, {k, m}, a16) : tensor(KEEL_BFLOAT16, {m, k}, a16);
    const DeviceTensor tb =
        with.transposed_b ? tensor(KEEL_BFLOAT16, {n, k}, b16) : tensor(KEEL_BFLOAT16, {k, n}, b16);
    const DeviceTensor tbias = tensor(KEEL_BFLOAT16, {n}, bias16);
    const DeviceTensor c_narrow = tensor(KEEL_BFLOAT16, {m, n}, c16), c_wide = floats({m, n}, c);
    const Tensors inputs = with.biased ? Tensors{ta, tb, tbias} : Tensors{ta, tb};
    const std::vector<keel_attribute> attributes = {
        integer(with.transposed_a), integer(with.transposed_b), real(with.alpha), real(with.beta)};
    run(KEEL_OP_MATMUL, inputs, {c_wide}, attributes);
    expect_product(values(c_wide), {with, a, b, c, bias}, 2e-6, 0);
    run(KEEL_OP_MATMUL, inputs, {c_narrow}, attributes);
    // beta * c + bias is rounded before the product is added, when both are there.
    const double early = with.biased && with.beta != 0 ? 0.004 : 2e-6;
    expect_product(widened(values<bfloat16_t>(c_narrow), to_float_of), {with, a, b, c, bias}, early,
                   0.004);
  }
}

TEST_P(CpuOps, MatmulOfViews) {
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
  run(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0)});
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
  EXPECT_EQ(query(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0)}).level,
            KEEL_OP_NONE);
}

TEST_P(CpuOps, MatmulOverNothingIsBetaTimesC) {
  DeviceTensor a(device(), KEEL_FLOAT32, {2, 0}), b(device(), KEEL_FLOAT32, {0, 3});
  const DeviceTensor c = floats({2, 3}, {1, 2, 3, 4, 5, 6}), bias = floats({3}, {10, 20, 30});
  run(KEEL_OP_MATMUL, {a, b, bias}, {c}, {integer(0), integer(0), real(1), real(2)});
  EXPECT_EQ(values(c), (std::vector<float>{12, 24, 36, 18, 30, 42}));
  run(KEEL_OP_MATMUL, {a, b}, {c}, {integer(0), integer(0), real(1), real(0)});
  EXPECT_EQ(values(c), std::vector<float>(6, 0.0f));
}

TEST_P(CpuOps, MatmulStartsNoThreadsOfItsOwn) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = threads();
  const auto a = random_values(512 * 512, 1);
  const DeviceTensor x = floats({512, 512}, a);
  DeviceTensor y(device(), KEEL_FLOAT32, {512, 512});
  run(KEEL_OP_MATMUL, {x, x}, {y}, {integer(0), integer(0), real(1), real(0)});
  // Fewer, when a thread of the test before was still on its way out.
  EXPECT_LE(threads(), before);
}

}  // namespace
}  // namespace keel::cpu::testing
