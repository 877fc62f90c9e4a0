// SPDX-License-Identifier: Apache-2.0
// Products of the built plugin, each against a float64 reference.
#include <cstring>
#include <keel/float_types.hpp>
#include <limits>

#include "backends/vulkan/ops_fixture.h"

namespace keel::vulkan {

namespace {

struct Product {
  int64_t m, n, k;
  bool trans_a, trans_b, bias;
  double alpha, beta;
  int64_t padding;  // extra elements between rows
  int64_t activation = 0;
};

double activated(int64_t activation, double t) {
  const double cubic = std::sqrt(2.0 / std::acos(-1.0)) * (t + 0.044715 * t * t * t);
  switch (activation) {
    case 1:
      return t / (1.0 + std::exp(-2.0 * cubic));
    case 2:
      return 0.5 * t * std::erfc(-t / std::sqrt(2.0));
    case 3:
      return t / (1.0 + std::exp(-t));
    default:
      return t;
  }
}

// Both kernels, independent of this device's choice.
class VulkanMatmul : public VulkanOps, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override { open({{"matmul_kernel", GetParam()}}); }

  void check(const Product& p) {
    const auto rows = [&](int64_t r, int64_t c, uint32_t seed, keel_tensor* out) {
      const int64_t stride = c + p.padding;
      const auto data = random_floats(static_cast<size_t>(r * stride), seed);
      *out = floats(upload(data), {r, c});
      out->strides[0] = stride;
      return data;
    };
    keel_tensor ta;
    keel_tensor tb;
    keel_tensor tc;
    const auto a = rows(p.trans_a ? p.k : p.m, p.trans_a ? p.m : p.k, 20, &ta);
    const auto b = rows(p.trans_b ? p.n : p.k, p.trans_b ? p.k : p.n, 21, &tb);
    auto c = rows(p.m, p.n, 22, &tc);
    if (p.beta == 0.0) {
      // c must not be read.
      std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
      ASSERT_EQ(streams_->copy(stream_, KEEL_COPY_HOST_TO_DEVICE, tc.data, c.data(), c.size() * 4),
                KEEL_OK);
    }
    const auto bias = random_floats(static_cast<size_t>(p.n), 23);
    std::vector<keel_tensor> inputs = {ta, tb};
    inputs.push_back(p.bias ? floats(upload(bias), {p.n}) : keel_tensor{});
    run({KEEL_OP_MATMUL,
         inputs,
         {tc},
         {integer(p.trans_a ? 1 : 0), integer(p.trans_b ? 1 : 0), real(p.alpha), real(p.beta),
          integer(p.activation)}});
    const auto got = download<float>(tc.data, c.size());
    const auto at = [](const std::vector<float>& x, const keel_tensor& t, int64_t i, int64_t j) {
      return double{x[static_cast<size_t>(i * t.strides[0] + j)]};
    };
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        double size = 0;  // sum of the terms' magnitudes
        for (int64_t l = 0; l < p.k; ++l) {
          const double term = (p.trans_a ? at(a, ta, l, i) : at(a, ta, i, l)) *
                              (p.trans_b ? at(b, tb, j, l) : at(b, tb, l, j));
          sum += term;
          size += std::fabs(term);
        }
        double expected = p.alpha * sum;
        if (p.beta != 0.0) expected += p.beta * at(c, tc, i, j);
        if (p.bias) expected += bias[static_cast<size_t>(j)];
        expected = activated(p.activation, expected);
        ASSERT_NEAR(at(got, tc, i, j), expected, 1.2e-6 * (size + std::fabs(expected)) + 1e-6)
            << p.m << "x" << p.n << "x" << p.k << " trans " << p.trans_a << p.trans_b << " at " << i
            << "," << j;
      }
      // Nothing is written between the rows.
      for (int64_t j = p.n; j < p.n + p.padding; ++j) {
        const auto index = static_cast<size_t>(i * tc.strides[0] + j);
        ASSERT_EQ(std::memcmp(&got[index], &c[index], 4), 0);
      }
    }
  }
};

TEST_P(VulkanMatmul, MatchesReference) {
  const std::tuple<int64_t, int64_t, int64_t> shapes[] = {
      {1, 1, 1},    {1, 17, 5},    {13, 1, 9},    {8, 16, 8},    {33, 47, 29},
      {64, 64, 64}, {65, 129, 67}, {128, 96, 50}, {100, 200, 1}, {16, 32, 0}};
  // Each shape with every transposition. The terms mixed with c take turns, since a CPU driver
  // compiles each new combination for up to a second.
  int turn = 0;
  for (const auto& [m, n, k] : shapes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const bool trans_a = (transposes & 1) != 0;
      const bool trans_b = (transposes & 2) != 0;
      switch ((turn++ + transposes) % 4) {
        case 0:
          check({m, n, k, trans_a, trans_b, false, 1.0, 0.0, 0});
          break;
        case 1:
          check({m, n, k, trans_a, trans_b, true, 0.5, 0.0, 3});
          break;
        case 2:
          check({m, n, k, trans_a, trans_b, false, 1.5, 2.0, 1});
          break;
        default:
          check({m, n, k, trans_a, trans_b, true, 1.0, 1.0, 0});
          break;
      }
    }
    ++turn;
  }
}

TEST_P(VulkanMatmul, EndsInAnActivation) {
  for (int64_t activation = 1; activation <= 3; ++activation) {
    check({33, 47, 29, false, true, true, 0.5, 0.0, 3, activation});
    check({65, 129, 67, true, false, false, 0.25, 0.5, 0, activation});
    check({5, 7, 0, false, false, true, 1.0, 2.0, 0, activation});
  }
}

// The limits of the activations at both ends, and NaN.
TEST_P(VulkanMatmul, ActivatesInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  const keel_tensor x = floats(upload(std::vector<float>{infinity, -infinity, NAN}), {3, 1});
  const keel_tensor one = floats(upload(std::vector<float>{1}), {1, 1});
  void* out = alloc(12);
  for (int64_t activation = 1; activation <= 3; ++activation) {
    run({KEEL_OP_MATMUL,
         {x, one, keel_tensor{}},
         {floats(out, {3, 1})},
         {integer(0), integer(0), real(1), real(0), integer(activation)}});
    const auto got = download<float>(out, 3);
    EXPECT_EQ(got[0], infinity) << activation;
    EXPECT_EQ(got[1], 0.0F) << activation;
    EXPECT_TRUE(std::isnan(got[2])) << activation;
  }
}

// Small integers, whose products and sums float16 and bfloat16 represent exactly.
TEST_P(VulkanMatmul, OfSixteenBitsIsExactInSmallIntegers) {
  const int64_t m = 66, n = 35, k = 19;
  const auto a = random_ints(static_cast<size_t>(m * k), 40, -2, 2);
  const auto b = random_ints(static_cast<size_t>(k * n), 41, -1, 1);
  const auto old = random_ints(static_cast<size_t>(m * n), 42, -3, 3);
  const auto bias = random_ints(static_cast<size_t>(n), 43, -9, 9);
  std::vector<float> want;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      int32_t sum = 2 * old[static_cast<size_t>(i * n + j)] + bias[static_cast<size_t>(j)];
      for (int64_t l = 0; l < k; ++l) {
        sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(j * k + l)];
      }
      want.push_back(static_cast<float>(sum));
    }
  }
  for (keel_dtype dtype : {KEEL_FLOAT16, KEEL_BFLOAT16}) {
    const auto narrowed = [&](const std::vector<int32_t>& values) {
      std::vector<uint16_t> codes;
      for (int32_t value : values) {
        const auto wide = static_cast<float>(value);
        codes.push_back(dtype == KEEL_FLOAT16 ? static_cast<uint16_t>(to_float16(wide))
                                              : static_cast<uint16_t>(to_bfloat16(wide)));
      }
      return codes;
    };
    const auto wide = [&](uint16_t code) {
      return dtype == KEEL_FLOAT16 ? to_float(static_cast<float16_t>(code))
                                   : to_float(static_cast<bfloat16_t>(code));
    };
    const std::vector<keel_tensor> inputs = {kit::make_tensor(upload(narrowed(a)), dtype, {m, k}),
                                             kit::make_tensor(upload(narrowed(b)), dtype, {n, k}),
                                             kit::make_tensor(upload(narrowed(bias)), dtype, {n})};
    const std::vector<keel_attribute> attributes = {integer(0), integer(1), real(1), real(2),
                                                    integer(0)};
    const keel_tensor narrow_c = kit::make_tensor(upload(narrowed(old)), dtype, {m, n});
    run({KEEL_OP_MATMUL, inputs, {narrow_c}, attributes});
    const auto codes = download<uint16_t>(narrow_c.data, want.size());
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(wide(codes[i]), want[i]) << i;
    const keel_tensor wide_c = floats(upload(std::vector<float>(old.begin(), old.end())), {m, n});
    run({KEEL_OP_MATMUL, inputs, {wide_c}, attributes});
    EXPECT_EQ(download<float>(wide_c.data, want.size()), want);
  }
}

// Products of a batch with one shared matrix b, compared with single matmuls.
TEST_P(VulkanMatmul, OfABatchIsOneAfterTheOther) {
  const int64_t batch = 3, m = 17, n = 40, k = 21;
  for (int transposes = 0; transposes < 4; ++transposes) {
    const bool trans_a = (transposes & 1) != 0;
    const bool trans_b = (transposes & 2) != 0;
    const int64_t a_rows = trans_a ? k : m;
    const int64_t b_rows = trans_b ? n : k;
    const auto old = random_floats(static_cast<size_t>(batch * m * n), 32);
    keel_tensor a = floats(upload(random_floats(static_cast<size_t>(batch * m * k), 30)),
                           {batch, a_rows, m * k / a_rows});
    keel_tensor b = floats(upload(random_floats(static_cast<size_t>(k * n), 31)),
                           {batch, b_rows, k * n / b_rows});
    b.strides[0] = 0;
    keel_tensor c = floats(upload(old), {batch, m, n});
    std::vector<keel_attribute> attributes = {integer(trans_a ? 1 : 0), integer(trans_b ? 1 : 0),
                                              real(0.5), real(transposes == 0 ? 0.0 : 2.0)};
    run({KEEL_OP_BATCHED_MATMUL, {a, b}, {c}, attributes});
    const auto got = download<float>(c.data, old.size());
    const auto part = [](const keel_tensor& all, int64_t each) {
      keel_tensor matrix = all;
      matrix.rank = 2;
      for (uint32_t axis = 0; axis < 2; ++axis) {
        matrix.shape[axis] = all.shape[axis + 1];
        matrix.strides[axis] = all.strides[axis + 1];
      }
      matrix.byte_offset += static_cast<uint64_t>(each * all.strides[0]) * sizeof(float);
      return matrix;
    };
    c.data = upload(old);
    attributes.push_back(integer(0));  // no activation
    for (int64_t each = 0; each < batch; ++each) {
      run({KEEL_OP_MATMUL,
           {part(a, each), part(b, each), keel_tensor{}},
           {part(c, each)},
           attributes});
    }
    const auto want = download<float>(c.data, old.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-4) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, VulkanMatmul, testing::Values("shared", "texel"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

}  // namespace keel::vulkan
