// SPDX-License-Identifier: Apache-2.0
// Every operator except matmul through the ABI, against a float64 reference in this file.
#include <algorithm>
#include <cmath>
#include <keel/float_types.hpp>
#include <limits>
#include <random>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2"),
                         [](const auto& info) { return std::string("cores") + info.param; });

// Odd, so that there is a tail, and above the size that is spread over cores.
constexpr int64_t kCount = 200003;

TEST_P(CpuOps, FillsEachType) {
  DeviceTensor f32(device(), KEEL_FLOAT32, {3, 1001}), f16(device(), KEEL_FLOAT16, {kCount});
  DeviceTensor bf16(device(), KEEL_BFLOAT16, {7}), i32(device(), KEEL_INT32, {7});
  DeviceTensor i64(device(), KEEL_INT64, {7}), u8(device(), KEEL_UINT8, {7});
  DeviceTensor scalar(device(), KEEL_FLOAT32, {}), empty(device(), KEEL_FLOAT32, {0, 4});
  run(KEEL_OP_FILL, {}, {f32}, {real(0.1)});
  EXPECT_EQ(values(f32), std::vector<float>(3003, 0.1f));
  run(KEEL_OP_FILL, {}, {f16}, {real(0.1)});
  EXPECT_EQ(values<float16_t>(f16), std::vector<float16_t>(kCount, to_float16(0.1f)));
  run(KEEL_OP_FILL, {}, {bf16}, {real(-3.7)});
  EXPECT_EQ(values<bfloat16_t>(bf16), std::vector<bfloat16_t>(7, to_bfloat16(-3.7f)));
  run(KEEL_OP_FILL, {}, {i32}, {real(-7.9)});
  EXPECT_EQ(values<int32_t>(i32), std::vector<int32_t>(7, -7));
  run(KEEL_OP_FILL, {}, {i64}, {real(1e18)});
  EXPECT_EQ(values<int64_t>(i64), std::vector<int64_t>(7, 1000000000000000000));
  run(KEEL_OP_FILL, {}, {u8}, {real(200)});
  EXPECT_EQ(values<uint8_t>(u8), std::vector<uint8_t>(7, 200));
  run(KEEL_OP_FILL, {}, {scalar}, {real(5)});
  EXPECT_EQ(values(scalar), std::vector<float>{5});
  run(KEEL_OP_FILL, {}, {empty}, {real(5)});
}

TEST_P(CpuOps, CastsBetweenFloats) {
  std::vector<float> x = random_values(kCount, 1, 100.0f);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> special = {0.0f,     -0.0f,    inf,     -inf,     65504.0f,
                                      65519.9f, 65520.0f, 1e-8f,   5.97e-8f, 2.9e-8f,
                                      6.1e-5f,  1e38f,    3.4e38f, 1.00195f, 1.0009765f};
  std::copy(special.begin(), special.end(), x.begin());
  const DeviceTensor from = floats({kCount}, x);
  DeviceTensor f16(device(), KEEL_FLOAT16, {kCount}), bf16(device(), KEEL_BFLOAT16, {kCount});
  DeviceTensor back(device(), KEEL_FLOAT32, {kCount}), same(device(), KEEL_FLOAT32, {kCount});
  run(KEEL_OP_CAST, {from}, {f16});
  const auto halves = narrowed<float16_t>(x, to_float16);
  EXPECT_EQ(values<float16_t>(f16), halves);
  run(KEEL_OP_CAST, {f16}, {back});
  const auto widened = values(back);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(widened[i], to_float(halves[i])) << i;
  run(KEEL_OP_CAST, {from}, {bf16});
  const auto brains = narrowed<bfloat16_t>(x, to_bfloat16);
  EXPECT_EQ(values<bfloat16_t>(bf16), brains);
  run(KEEL_OP_CAST, {bf16}, {f16});
  std::vector<float16_t> expected;
  for (const bfloat16_t value : brains) expected.push_back(to_float16(to_float(value)));
  EXPECT_EQ(values<float16_t>(f16), expected);
  run(KEEL_OP_CAST, {from}, {same});
  EXPECT_EQ(values(same), x);

  const DeviceTensor nan = floats({1}, {std::nanf("")});
  DeviceTensor half(device(), KEEL_FLOAT16, {1}), brain(device(), KEEL_BFLOAT16, {1});
  run(KEEL_OP_CAST, {nan}, {half});
  EXPECT_TRUE(std::isnan(to_float(values<float16_t>(half)[0])));
  run(KEEL_OP_CAST, {nan}, {brain});
  EXPECT_TRUE(std::isnan(to_float(values<bfloat16_t>(brain)[0])));
}

TEST_P(CpuOps, CastsToAndFromIntegers) {
  const DeviceTensor x =
      floats({8}, {1.9f, -1.9f, 0.5f, 2147483520.0f, 3e9f, -3e9f, std::nanf(""), -2147483648.0f});
  DeviceTensor y(device(), KEEL_INT32, {8}), back(device(), KEEL_FLOAT32, {8});
  run(KEEL_OP_CAST, {x}, {y});
  EXPECT_EQ(values<int32_t>(y),
            (std::vector<int32_t>{1, -1, 0, 2147483520, INT32_MAX, INT32_MIN, 0, INT32_MIN}));
  run(KEEL_OP_CAST, {y}, {back});
  EXPECT_EQ(values(back)[4], 2147483648.0f);
}

TEST_P(CpuOps, AddScaleAxpy) {
  const auto a = random_values(kCount, 2), b = random_values(kCount, 3);
  const DeviceTensor x = floats({kCount}, a), y = floats({kCount}, b);
  DeviceTensor out(device(), KEEL_FLOAT32, {kCount});
  run(KEEL_OP_ADD, {x, y}, {out});
  expect_near(
      values(out), [&](size_t i) { return double{a[i]} + b[i]; }, 6e-8, 0);
  run(KEEL_OP_SCALE, {x}, {out}, {real(-1.7)});
  expect_near(
      values(out), [&](size_t i) { return -1.7 * a[i]; }, 2e-7, 0);
  run(KEEL_OP_AXPY, {x, y}, {out}, {real(0.3)});
  expect_near(
      values(out), [&](size_t i) { return 0.3 * a[i] + b[i]; }, 2e-7, 2e-7);

  // In place.
  const DeviceTensor z = floats({kCount}, a);
  run(KEEL_OP_ADD, {z, y}, {z});
  run(KEEL_OP_AXPY, {x, z}, {z}, {real(-1)});
  run(KEEL_OP_SCALE, {z}, {z}, {real(2)});
  expect_near(
      values(z), [&](size_t i) { return 2.0 * b[i]; }, 1e-6, 2e-6);
}

TEST_P(CpuOps, SixteenBitArithmeticRoundsOnce) {
  const auto a = narrowed<bfloat16_t>(random_values(kCount, 4), to_bfloat16);
  const auto b = narrowed<bfloat16_t>(random_values(kCount, 5), to_bfloat16);
  const DeviceTensor x = tensor(KEEL_BFLOAT16, {kCount}, a), y = tensor(KEEL_BFLOAT16, {kCount}, b);
  DeviceTensor out(device(), KEEL_BFLOAT16, {kCount});
  run(KEEL_OP_ADD, {x, y}, {out});
  auto actual = values<bfloat16_t>(out);
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(actual[i], to_bfloat16(to_float(a[i]) + to_float(b[i])));
  }
  run(KEEL_OP_SCALE, {x}, {out}, {real(0.75)});
  actual = values<bfloat16_t>(out);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(actual[i], to_bfloat16(0.75f * to_float(a[i])));

  const auto c = narrowed<float16_t>(random_values(1003, 6), to_float16);
  const DeviceTensor h = tensor(KEEL_FLOAT16, {1003}, c);
  DeviceTensor sum(device(), KEEL_FLOAT16, {1003});
  run(KEEL_OP_ADD, {h, h}, {sum});
  const auto doubled = values<float16_t>(sum);
  for (size_t i = 0; i < c.size(); ++i) ASSERT_EQ(doubled[i], to_float16(2 * to_float(c[i])));

  const auto f = random_values(kCount, 7);
  const DeviceTensor master = floats({kCount}, f);
  DeviceTensor updated(device(), KEEL_FLOAT32, {kCount});
  run(KEEL_OP_AXPY, {x, master}, {updated}, {real(0.5)});
  expect_near(
      values(updated), [&](size_t i) { return 0.5 * to_float(a[i]) + f[i]; }, 2e-7, 2e-7);
}

TEST_P(CpuOps, SumsAlongEachAxis) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {1, 300007}, {300007, 1}, {37, 65}, {1003, 517}}) {
    const auto data = random_values(static_cast<size_t>(rows * columns), 8);
    const DeviceTensor x = floats({rows, columns}, data);
    DeviceTensor down(device(), KEEL_FLOAT32, {columns}), across(device(), KEEL_FLOAT32, {rows});
    DeviceTensor all(device(), KEEL_FLOAT32, {});
    run(KEEL_OP_SUM, {x}, {down}, {integer(0)});
    run(KEEL_OP_SUM, {x}, {across}, {integer(1)});
    run(KEEL_OP_SUM, {x}, {all}, {integer(-1)});
    const auto sum = [&](int64_t begin, int64_t count, int64_t stride) {
      double total = 0;
      for (int64_t i = 0; i < count; ++i) total += data[static_cast<size_t>(begin + i * stride)];
      return total;
    };
    expect_near(
        values(down), [&](size_t j) { return sum(static_cast<int64_t>(j), rows, columns); }, 1e-6,
        1e-4);
    expect_near(
        values(across),
        [&](size_t i) { return sum(static_cast<int64_t>(i) * columns, columns, 1); }, 1e-6, 1e-4);
    expect_near(
        values(all), [&](size_t) { return sum(0, rows * columns, 1); }, 1e-6, 3e-4);
  }
}

TEST_P(CpuOps, SumOfNothingIsZero) {
  DeviceTensor x(device(), KEEL_FLOAT32, {0, 3}), y(device(), KEEL_FLOAT32, {3});
  upload(stream_, y.data(), std::vector<float>{1, 2, 3});
  run(KEEL_OP_SUM, {x}, {y}, {integer(0)});
  EXPECT_EQ(values(y), std::vector<float>(3, 0.0f));
}

double gelu(double x) {
  // 1 + tanh(u) as 2 / (1 + exp(-2u)), which keeps the left tail.
  const double u = std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1.0 + std::exp(-2.0 * u));
}

double gelu_slope(double x) {
  const double c = std::sqrt(2.0 / M_PI);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
}

TEST_P(CpuOps, GeluOverItsRange) {
  std::vector<float> data = random_values(kCount, 9, 3.0f);
  for (int i = 0; i < 24000; ++i)
    data[static_cast<size_t>(i)] = -12.0f + 0.001f * static_cast<float>(i);
  const DeviceTensor x = floats({kCount}, data);
  DeviceTensor y(device(), KEEL_FLOAT32, {kCount});
  run(KEEL_OP_GELU, {x}, {y}, {integer(0)});
  expect_near(
      values(y), [&](size_t i) { return gelu(data[i]); }, 1e-6, 1e-37);

  const auto upstream = random_values(kCount, 10);
  const DeviceTensor dy = floats({kCount}, upstream);
  run(KEEL_OP_GELU_BACKWARD, {x, dy}, {dy}, {integer(0)});
  expect_near(
      values(dy), [&](size_t i) { return upstream[i] * gelu_slope(data[i]); }, 2e-6, 1e-6);

  const float inf = std::numeric_limits<float>::infinity();
  const DeviceTensor special = floats({4}, {inf, 1e30f, -1e30f, std::nanf("")});
  const DeviceTensor ones = floats({4}, {1, 1, 1, 1});
  DeviceTensor result(device(), KEEL_FLOAT32, {4}), slope(device(), KEEL_FLOAT32, {4});
  run(KEEL_OP_GELU, {special}, {result}, {integer(0)});
  run(KEEL_OP_GELU_BACKWARD, {special, ones}, {slope}, {integer(0)});
  const auto g = values(result), s = values(slope);
  EXPECT_EQ(g[0], inf);
  EXPECT_EQ(g[1], 1e30f);
  EXPECT_EQ(g[2], 0.0f);
  EXPECT_TRUE(std::isnan(g[3]));
  EXPECT_EQ(s[0], 1.0f);
  EXPECT_EQ(s[1], 1.0f);
  EXPECT_EQ(s[2], 0.0f);
  EXPECT_TRUE(std::isnan(s[3]));
}

TEST_P(CpuOps, EmbeddingAndItsGradient) {
  const int64_t words = 1000, width = 129, count = 5003;
  const auto weights = random_values(static_cast<size_t>(words * width), 11);
  std::vector<int32_t> picked;
  std::mt19937 generator(12);
  for (int64_t i = 0; i < count; ++i) picked.push_back(static_cast<int32_t>(generator() % 50 * 21));
  picked[3] = -1;
  picked[4] = 1000;
  const DeviceTensor table = floats({words, width}, weights);
  const DeviceTensor indices = tensor(KEEL_INT32, {count}, picked);
  DeviceTensor out(device(), KEEL_FLOAT32, {count, width});
  run(KEEL_OP_EMBEDDING, {table, indices}, {out}, {integer(0)});
  const auto rows = values(out);
  const auto in_range = [&](size_t i) { return picked[i] >= 0 && picked[i] < words; };
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    for (size_t j = 0; j < static_cast<size_t>(width); ++j) {
      const float expected =
          in_range(i) ? weights[static_cast<size_t>(picked[i]) * width + j] : 0.0f;
      ASSERT_EQ(rows[i * width + j], expected);
    }
  }

  const auto upstream = random_values(static_cast<size_t>(count * width), 13);
  const DeviceTensor gradient = floats({count, width}, upstream);
  DeviceTensor sums(device(), KEEL_FLOAT32, {words, width});
  run(KEEL_OP_EMBEDDING_BACKWARD, {gradient, indices}, {sums}, {integer(0)});
  // Exact: in float32, in the order of the indices.
  std::vector<float> expected(static_cast<size_t>(words * width), 0.0f);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    if (!in_range(i)) continue;
    for (size_t j = 0; j < static_cast<size_t>(width); ++j) {
      expected[static_cast<size_t>(picked[i]) * width + j] += upstream[i * width + j];
    }
  }
  EXPECT_EQ(values(sums), expected);
}

// Gradients that are widened in several blocks, for tokens 300 to 399.
TEST_P(CpuOps, EmbeddingGradientOfARangeFrom16Bits) {
  const int64_t first = 300, words = 100, width = 1100, count = 701;
  std::vector<int32_t> picked;
  std::mt19937 generator(21);
  for (int64_t i = 0; i < count; ++i) picked.push_back(static_cast<int32_t>(generator() % 500));
  const DeviceTensor indices = tensor(KEEL_INT32, {count}, picked);
  const std::vector<float> upstream = random_values(static_cast<size_t>(count * width), 22);
  const auto expect_sums = [&](keel_dtype dtype, auto narrow) {
    const auto rows = narrowed<decltype(narrow(0.0f))>(upstream, narrow);
    const DeviceTensor gradient = tensor(dtype, {count, width}, rows);
    DeviceTensor sums(device(), KEEL_FLOAT32, {words, width});
    run(KEEL_OP_EMBEDDING_BACKWARD, {gradient, indices}, {sums}, {integer(first)});
    // Exact: in float32, in the order of the indices.
    std::vector<float> expected(static_cast<size_t>(words * width), 0.0f);
    for (size_t i = 0; i < picked.size(); ++i) {
      const int64_t row = picked[i] - first;
      if (row < 0 || row >= words) continue;
      for (size_t j = 0; j < static_cast<size_t>(width); ++j) {
        expected[static_cast<size_t>(row * width) + j] += to_float(rows[i * width + j]);
      }
    }
    EXPECT_EQ(values(sums), expected);
  };
  expect_sums(KEEL_BFLOAT16, [](float value) { return to_bfloat16(value); });
  expect_sums(KEEL_FLOAT16, [](float value) { return to_float16(value); });
}

// Equal bits as for the same numbers in float32: the order is the same.
TEST_P(CpuOps, SumsOf16Bits) {
  const int64_t rows = 1031, columns = 701;
  const std::vector<float> data = random_values(static_cast<size_t>(rows * columns), 23);
  const auto expect_sums = [&](keel_dtype dtype, auto narrow) {
    const auto elements = narrowed<decltype(narrow(0.0f))>(data, narrow);
    std::vector<float> widened;
    for (const auto element : elements) widened.push_back(to_float(element));
    const DeviceTensor x = tensor(dtype, {rows, columns}, elements);
    const DeviceTensor wide = floats({rows, columns}, widened);
    const auto expect_along = [&](int64_t axis, std::initializer_list<int64_t> shape) {
      DeviceTensor want(device(), KEEL_FLOAT32, shape), sums(device(), KEEL_FLOAT32, shape),
          rounded(device(), dtype, shape);
      run(KEEL_OP_SUM, {wide}, {want}, {integer(axis)});
      run(KEEL_OP_SUM, {x}, {sums}, {integer(axis)});
      run(KEEL_OP_SUM, {x}, {rounded}, {integer(axis)});
      EXPECT_EQ(values(sums), values(want)) << axis;
      EXPECT_EQ(values<decltype(narrow(0.0f))>(rounded),
                narrowed<decltype(narrow(0.0f))>(values(want), narrow))
          << axis;
    };
    expect_along(0, {columns});
    expect_along(1, {rows});
    expect_along(-1, {});
  };
  expect_sums(KEEL_BFLOAT16, [](float value) { return to_bfloat16(value); });
  expect_sums(KEEL_FLOAT16, [](float value) { return to_float16(value); });
}

TEST_P(CpuOps, CrossEntropyAndItsGradient) {
  for (const int64_t classes : {1, 7, 1000, 50257}) {
    const int64_t rows = classes > 10000 ? 9 : 61;
    auto data = random_values(static_cast<size_t>(rows * classes), 14, 5.0f);
    for (int64_t j = 0; j < classes; ++j) data[static_cast<size_t>(j)] += 1000.0f;  // no overflow
    std::vector<int32_t> targets;
    for (int64_t i = 0; i < rows; ++i) targets.push_back(static_cast<int32_t>(i * 31 % classes));
    targets[1] = -100;
    targets[2] = static_cast<int32_t>(classes);
    const DeviceTensor logits = floats({rows, classes}, data);
    const DeviceTensor labels = tensor(KEEL_INT32, {rows}, targets);
    DeviceTensor loss(device(), KEEL_FLOAT32, {rows}), sums(device(), KEEL_FLOAT32, {rows});
    run(KEEL_OP_CROSS_ENTROPY, {logits, labels}, {loss, sums});

    std::vector<double> reference;
    for (int64_t i = 0; i < rows; ++i) {
      const float* const row = data.data() + i * classes;
      const double top = *std::max_element(row, row + classes);
      double sum = 0;
      for (int64_t j = 0; j < classes; ++j) sum += std::exp(row[j] - top);
      reference.push_back(top + std::log(sum));
    }
    const auto counted = [&](size_t i) { return targets[i] >= 0 && targets[i] < classes; };
    const auto at = [&](size_t i, size_t j) {
      return double{data[i * static_cast<size_t>(classes) + j]};
    };
    expect_near(
        values(sums), [&](size_t i) { return reference[i]; }, 2e-7, 1e-6);
    expect_near(
        values(loss),
        [&](size_t i) {
          return counted(i) ? reference[i] - at(i, static_cast<size_t>(targets[i])) : 0.0;
        },
        1e-6, 1e-6);

    run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {logits, labels, sums}, {logits}, {real(0.25)});
    // Near 1000 the last place of logsumexp is 6e-5; the probabilities keep the lost digits.
    expect_near(
        values(logits),
        [&](size_t index) {
          const size_t i = index / static_cast<size_t>(classes),
                       j = index % static_cast<size_t>(classes);
          if (!counted(i)) return 0.0;
          return 0.25 *
                 (std::exp(at(i, j) - reference[i]) - (static_cast<size_t>(targets[i]) == j));
        },
        4e-6, 1e-7);
  }
}

TEST_P(CpuOps, AdamwFollowsTheFormula) {
  const double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1, scale = 0.5;
  auto p = random_values(kCount, 15), g = random_values(kCount, 16);
  auto m = random_values(kCount, 17, 0.1f), v = random_values(kCount, 18, 0.1f);
  for (float& value : v) value *= value;
  const DeviceTensor parameter = floats({kCount}, p), gradient = floats({kCount}, g);
  const DeviceTensor mean = floats({kCount}, m), square = floats({kCount}, v);
  for (const int64_t step : {1, 2, 3}) {
    run(KEEL_OP_ADAMW, {parameter, gradient, mean, square}, {parameter, mean, square},
        {real(lr), real(beta1), real(beta2), real(eps), real(decay), integer(step), real(scale)});
    std::vector<double> wanted_p, wanted_m, wanted_v;
    for (size_t i = 0; i < p.size(); ++i) {
      const double scaled = g[i] * scale;
      wanted_m.push_back(beta1 * m[i] + (1 - beta1) * scaled);
      wanted_v.push_back(beta2 * v[i] + (1 - beta2) * scaled * scaled);
      const double m_hat = wanted_m[i] / (1 - std::pow(beta1, step));
      const double v_hat = wanted_v[i] / (1 - std::pow(beta2, step));
      wanted_p.push_back(p[i] - lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * p[i]));
    }
    p = values(parameter);
    m = values(mean);
    v = values(square);
    expect_near(
        p, [&](size_t i) { return wanted_p[i]; }, 3e-7, 3e-7);
    expect_near(
        m, [&](size_t i) { return wanted_m[i]; }, 1e-6, 1e-7);
    expect_near(
        v, [&](size_t i) { return wanted_v[i]; }, 1e-6, 1e-9);
  }
}

// Equal bits as for the same logits in float32, except that the gradient is rounded.
TEST_P(CpuOps, CrossEntropyOf16Bits) {
  const int64_t rows = 37, classes = 1601;
  const std::vector<float> data = random_values(static_cast<size_t>(rows * classes), 24, 5.0f);
  std::vector<int32_t> targets;
  for (int64_t i = 0; i < rows; ++i) targets.push_back(static_cast<int32_t>(i * 431 % classes));
  targets[1] = -100;
  targets[2] = static_cast<int32_t>(classes);
  const DeviceTensor labels = tensor(KEEL_INT32, {rows}, targets);
  const auto expect_losses = [&](keel_dtype dtype, auto narrow) {
    using Element = decltype(narrow(0.0f));
    const auto elements = narrowed<Element>(data, narrow);
    std::vector<float> widened;
    for (const auto element : elements) widened.push_back(to_float(element));
    const DeviceTensor logits = tensor(dtype, {rows, classes}, elements);
    const DeviceTensor wide = floats({rows, classes}, widened);
    DeviceTensor loss(device(), KEEL_FLOAT32, {rows}), sums(device(), KEEL_FLOAT32, {rows});
    DeviceTensor want_loss(device(), KEEL_FLOAT32, {rows}), want(device(), KEEL_FLOAT32, {rows});
    run(KEEL_OP_CROSS_ENTROPY, {logits, labels}, {loss, sums});
    run(KEEL_OP_CROSS_ENTROPY, {wide, labels}, {want_loss, want});
    EXPECT_EQ(values(loss), values(want_loss));
    EXPECT_EQ(values(sums), values(want));
    run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {logits, labels, sums}, {logits}, {real(0.25)});
    run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {wide, labels, want}, {wide}, {real(0.25)});
    EXPECT_EQ(values<Element>(logits), narrowed<Element>(values(wide), narrow));
  };
  expect_losses(KEEL_BFLOAT16, [](float value) { return to_bfloat16(value); });
  expect_losses(KEEL_FLOAT16, [](float value) { return to_float16(value); });
}

// Equal bits as for the same gradient in float32.
TEST_P(CpuOps, AdamWithGradientsOf16Bits) {
  const int64_t count = 70001;
  const auto size = static_cast<size_t>(count);
  const std::vector<float> p = random_values(size, 25), g = random_values(size, 26);
  const std::vector<float> m = random_values(size, 27), v(size, 0.5f);
  const auto expect_step = [&](keel_dtype dtype, auto narrow) {
    const auto elements = narrowed<decltype(narrow(0.0f))>(g, narrow);
    std::vector<float> widened;
    for (const auto element : elements) widened.push_back(to_float(element));
    const auto step = [&](const DeviceTensor& gradient) {
      const DeviceTensor parameter = floats({count}, p), mean = floats({count}, m),
                         square = floats({count}, v);
      run(KEEL_OP_ADAMW, {parameter, gradient, mean, square}, {parameter, mean, square},
          {real(1e-3), real(0.9), real(0.99), real(1e-8), real(0.1), integer(3), real(0.5)});
      return std::vector{values(parameter), values(mean), values(square)};
    };
    EXPECT_EQ(step(tensor(dtype, {count}, elements)), step(floats({count}, widened)));
  };
  expect_step(KEEL_BFLOAT16, [](float value) { return to_bfloat16(value); });
  expect_step(KEEL_FLOAT16, [](float value) { return to_float16(value); });
}

TEST_P(CpuOps, StridedTensorsAreRefusedNotMisread) {
  DeviceTensor x(device(), KEEL_FLOAT32, {4, 4}), y(device(), KEEL_FLOAT32, {4, 4});
  x.view().strides[0] = 1;
  x.view().strides[1] = 4;
  EXPECT_EQ(query(KEEL_OP_GELU, {x}, {y}, {}).level, KEEL_OP_NONE);
  EXPECT_EQ(query(KEEL_OP_SUM, {x}, {y}, {integer(0)}).level, KEEL_OP_NONE);
  EXPECT_EQ(query(KEEL_OP_COUNT, {x}, {y}, {}).level, KEEL_OP_NONE);
  EXPECT_EQ(query(KEEL_OP_CUSTOM_BASE, {x}, {y}, {}).level, KEEL_OP_NONE);
}

}  // namespace
}  // namespace keel::cpu::testing
