// SPDX-License-Identifier: Apache-2.0
// The operators of the built plugin, each against a float64 reference.
#include <functional>
#include <keel/float_types.hpp>
#include <limits>

#include "backends/vulkan/ops_fixture.h"

namespace keel::vulkan {

namespace {

constexpr int64_t kCounts[] = {1, 7, 64, 1000, 100003};

TEST_F(VulkanOps, ElementwiseArithmetic) {
  for (int64_t n : kCounts) {
    const auto a = random_floats(static_cast<size_t>(n), 1);
    const auto b = random_floats(static_cast<size_t>(n), 2);
    void* device_a = upload(a);
    void* device_b = upload(b);
    void* out = alloc(a.size() * 4);
    std::vector<double> expected(a.size());
    for (size_t i = 0; i < a.size(); ++i) expected[i] = double{a[i]} + double{b[i]};
    run({KEEL_OP_ADD, {floats(device_a, {n}), floats(device_b, {n})}, {floats(out, {n})}, {}});
    expect_near(out, expected, 1e-6, 1e-7, "add");
    for (size_t i = 0; i < a.size(); ++i) expected[i] = -2.5 * a[i];
    run({KEEL_OP_SCALE, {floats(device_a, {n})}, {floats(out, {n})}, {real(-2.5)}});
    expect_near(out, expected, 1e-6, 0, "scale");
    for (size_t i = 0; i < a.size(); ++i) expected[i] = 0.75 * a[i] + b[i];
    // In place with y.
    run({KEEL_OP_AXPY,
         {floats(device_a, {n}), floats(device_b, {n})},
         {floats(device_b, {n})},
         {real(0.75)}});
    expect_near(device_b, expected, 1e-6, 1e-6, "axpy");
  }
}

TEST_F(VulkanOps, GeluAndItsGradientOverTheWholeRange) {
  std::vector<float> x = random_floats(5000, 3, 3.0F);
  for (float value : {0.0F, 1e-20F, -1e-20F, 6.0F, -6.0F, 30.0F, -30.0F, 1e4F, -1e4F, 3e38F}) {
    x.push_back(value);
  }
  const std::vector<float> dy = random_floats(x.size(), 4);
  const auto n = static_cast<int64_t>(x.size());
  void* device_x = upload(x);
  void* device_dy = upload(dy);
  void* out = alloc(x.size() * 4);
  std::vector<double> expected(x.size());
  std::vector<double> gradient(x.size());
  const double root = std::sqrt(2.0 / std::acos(-1.0));
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double u = root * (v + 0.044715 * v * v * v);
    const double sigmoid = 1.0 / (1.0 + std::exp(-2.0 * u));
    expected[i] = v * sigmoid;
    const double slope = root * (1.0 + 3.0 * 0.044715 * v * v);
    const double rest = 1.0 / (1.0 + std::exp(2.0 * u));
    gradient[i] = dy[i] * (sigmoid + (rest == 0.0 ? 0.0 : v * sigmoid * rest * 2.0 * slope));
    if (sigmoid == 0.0) gradient[i] = 0.0;
  }
  run({KEEL_OP_GELU, {floats(device_x, {n})}, {floats(out, {n})}, {integer(0)}});
  expect_near(out, expected, 3e-6, 1e-7, "gelu");
  run({KEEL_OP_GELU_BACKWARD,
       {floats(device_x, {n}), floats(device_dy, {n})},
       {floats(device_dy, {n})},
       {integer(0)}});
  expect_near(device_dy, gradient, 5e-6, 1e-6, "gelu_backward");
}

TEST_F(VulkanOps, FillConvertsItsValue) {
  const auto filled = [&](keel_dtype dtype, double value) {
    void* out = alloc(24);
    run({KEEL_OP_FILL, {}, {kit::make_tensor(out, dtype, {3})}, {real(value)}});
    return download<uint8_t>(out, 3 * kit::dtype_size(dtype));
  };
  const auto bytes_of = [](auto value) {
    std::vector<uint8_t> bytes(3 * sizeof(value));
    for (int i = 0; i < 3; ++i)
      std::memcpy(bytes.data() + i * sizeof(value), &value, sizeof(value));
    return bytes;
  };
  EXPECT_EQ(filled(KEEL_FLOAT32, 1.1), bytes_of(1.1F));
  EXPECT_EQ(filled(KEEL_FLOAT16, 1.1), bytes_of(to_float16(1.1F)));
  EXPECT_EQ(filled(KEEL_BFLOAT16, 1.1), bytes_of(to_bfloat16(1.1F)));
  EXPECT_EQ(filled(KEEL_INT32, -7.0), bytes_of(int32_t{-7}));
  EXPECT_EQ(filled(KEEL_INT64, -5e12), bytes_of(int64_t{-5'000'000'000'000}));
  EXPECT_EQ(filled(KEEL_UINT8, 200.0), bytes_of(uint8_t{200}));
}

TEST_F(VulkanOps, CastsRoundToNearestEven) {
  std::vector<float> x = random_floats(4000, 5, 100.0F);
  for (float value :
       {0.0F, -0.0F, 1.0F, 65504.0F, 65519.0F, 65520.0F, -1e6F, 6e-8F, 2.98e-8F, 2.99e-8F, 6.1e-5F,
        1.00048828125F, 1.00146484375F, 3.4e38F, std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    x.push_back(value);
  }
  const auto n = static_cast<int64_t>(x.size());
  void* device_x = upload(x);
  void* half = alloc(x.size() * 2);
  void* back = alloc(x.size() * 4);
  const auto cast = [&](void* from, keel_dtype source, void* to, keel_dtype destination) {
    run({KEEL_OP_CAST,
         {kit::make_tensor(from, source, {n})},
         {kit::make_tensor(to, destination, {n})},
         {}});
  };
  for (keel_dtype dtype : {KEEL_FLOAT16, KEEL_BFLOAT16}) {
    const auto code = [&](float value) {
      return dtype == KEEL_FLOAT16 ? static_cast<uint16_t>(to_float16(value))
                                   : static_cast<uint16_t>(to_bfloat16(value));
    };
    const auto value_of = [&](uint16_t bits) {
      return dtype == KEEL_FLOAT16 ? to_float(static_cast<float16_t>(bits))
                                   : to_float(static_cast<bfloat16_t>(bits));
    };
    cast(device_x, KEEL_FLOAT32, half, dtype);
    const auto codes = download<uint16_t>(half, x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(codes[i], code(x[i])) << kit::dtype_name(dtype) << " of " << x[i];
    }
    cast(half, dtype, back, KEEL_FLOAT32);
    const auto floats_back = download<float>(back, x.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(floats_back[i], value_of(codes[i]));
  }
  const std::vector<float> whole = {0.0F, 1.9F, -1.9F, 123456.7F, -2147483648.0F, 16777216.0F};
  void* device_whole = upload(whole);
  void* integers = alloc(whole.size() * 4);
  const auto w = static_cast<int64_t>(whole.size());
  run({KEEL_OP_CAST, {floats(device_whole, {w})}, {ints(integers, {w})}, {}});
  const auto got = download<int32_t>(integers, whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(got[i], static_cast<int32_t>(whole[i]));
  run({KEEL_OP_CAST, {ints(integers, {w})}, {floats(back, {w})}, {}});
  const auto returned = download<float>(back, whole.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(returned[i], static_cast<float>(static_cast<int32_t>(whole[i])));
  }
}

TEST_F(VulkanOps, SumsOverEachAxis) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1},      {3, 5},     {1, 100000}, {70001, 3},
                                                {600, 1000}, {5000, 33}, {2, 4097}};
  for (const auto& [rows, columns] : shapes) {
    const auto x = random_floats(static_cast<size_t>(rows * columns), 6);
    std::vector<double> by_column(static_cast<size_t>(columns));
    std::vector<double> by_row(static_cast<size_t>(rows));
    std::vector<double> all(1);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const double value = x[static_cast<size_t>(r * columns + c)];
        by_column[static_cast<size_t>(c)] += value;
        by_row[static_cast<size_t>(r)] += value;
        all[0] += value;
      }
    }
    const keel_tensor in = floats(upload(x), {rows, columns});
    void* out = alloc(static_cast<uint64_t>(std::max(rows, columns)) * 4);
    const std::string what = std::to_string(rows) + "x" + std::to_string(columns);
    run({KEEL_OP_SUM, {in}, {floats(out, {columns})}, {integer(0)}});
    expect_near(out, by_column, 1e-5, 1e-4, what + " axis 0");
    run({KEEL_OP_SUM, {in}, {floats(out, {rows})}, {integer(1)}});
    expect_near(out, by_row, 1e-5, 1e-4, what + " axis 1");
    run({KEEL_OP_SUM, {in}, {floats(out, {})}, {integer(-1)}});
    expect_near(out, all, 1e-5, 1e-3, what + " all");
  }
}

TEST_F(VulkanOps, SumOfNothingIsZero) {
  const float one = 1.0F;
  void* out = upload(std::vector<float>(4, one));
  run({KEEL_OP_SUM, {floats(nullptr, {0, 4})}, {floats(out, {4})}, {integer(0)}});
  EXPECT_EQ(download<float>(out, 4), std::vector<float>(4, 0.0F));
}

TEST_F(VulkanOps, EmptyTensorsDoNothing) {
  run({KEEL_OP_ADD, {floats(nullptr, {0}), floats(nullptr, {0})}, {floats(nullptr, {0})}, {}});
  run({KEEL_OP_EMBEDDING,
       {floats(nullptr, {0, 4}), ints(nullptr, {0})},
       {floats(nullptr, {0, 4})},
       {integer(0)}});
  run({KEEL_OP_MATMUL,
       {floats(nullptr, {0, 3}), floats(nullptr, {3, 5})},
       {floats(nullptr, {0, 5})},
       {integer(0), integer(0), real(1), real(0), integer(0)}});
}

TEST_F(VulkanOps, EmbeddingAndItsGradient) {
  const std::tuple<int64_t, int64_t, int64_t> cases[] = {{5, 3, 17}, {256, 64, 5000}, {40, 100, 1}};
  for (const auto& [v, d, n] : cases) {
    const auto table = random_floats(static_cast<size_t>(v * d), 7);
    const auto dout = random_floats(static_cast<size_t>(n * d), 8);
    // Some indices lie outside the table, on both sides.
    const auto indices = random_ints(static_cast<size_t>(n), 9, -1, static_cast<int32_t>(v));
    std::vector<double> rows(static_cast<size_t>(n * d));
    std::vector<double> gradient(static_cast<size_t>(v * d));
    for (int64_t i = 0; i < n; ++i) {
      const int32_t index = indices[static_cast<size_t>(i)];
      if (index < 0 || index >= v) continue;
      for (int64_t c = 0; c < d; ++c) {
        rows[static_cast<size_t>(i * d + c)] = table[static_cast<size_t>(index * d + c)];
        gradient[static_cast<size_t>(index * d + c)] += dout[static_cast<size_t>(i * d + c)];
      }
    }
    void* out = alloc(rows.size() * 4);
    void* device_indices = upload(indices);
    run({KEEL_OP_EMBEDDING,
         {floats(upload(table), {v, d}), ints(device_indices, {n})},
         {floats(out, {n, d})},
         {integer(0)}});
    expect_near(out, rows, 0, 0, "embedding");
    void* device_dout = upload(dout);
    void* dtable = alloc(gradient.size() * 4);
    const auto backward = [&] {
      run({KEEL_OP_EMBEDDING_BACKWARD,
           {floats(device_dout, {n, d}), ints(device_indices, {n})},
           {floats(dtable, {v, d})},
           {integer(0)}});
    };
    backward();
    expect_near(dtable, gradient, 1e-5, 1e-5, "embedding_backward");
    const auto first = download<float>(dtable, gradient.size());
    backward();
    EXPECT_EQ(download<float>(dtable, gradient.size()), first);
  }
}

TEST_F(VulkanOps, CrossEntropyAndItsGradient) {
  const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {7, 10}, {300, 256}, {3, 50000}};
  for (const auto& [n, v] : shapes) {
    auto logits = random_floats(static_cast<size_t>(n * v), 10, 5.0F);
    for (int64_t c = 0; c < v; ++c) logits[static_cast<size_t>(c)] += 5000.0F;  // exp overflows
    const auto labels = random_ints(static_cast<size_t>(n), 11, -1, static_cast<int32_t>(v));
    std::vector<double> loss(static_cast<size_t>(n));
    std::vector<double> sums(static_cast<size_t>(n));
    std::vector<double> gradient(logits.size());
    constexpr double kScale = 0.125;
    for (int64_t r = 0; r < n; ++r) {
      const float* row = logits.data() + r * v;
      double largest = row[0];
      for (int64_t c = 1; c < v; ++c) largest = std::max(largest, double{row[c]});
      double sum = 0;
      for (int64_t c = 0; c < v; ++c) sum += std::exp(row[c] - largest);
      const double logsumexp = largest + std::log(sum);
      sums[static_cast<size_t>(r)] = logsumexp;
      const int32_t label = labels[static_cast<size_t>(r)];
      if (label < 0 || label >= v) continue;
      loss[static_cast<size_t>(r)] = logsumexp - row[label];
      for (int64_t c = 0; c < v; ++c) {
        gradient[static_cast<size_t>(r * v + c)] =
            kScale * (std::exp(row[c] - logsumexp) - (c == label ? 1.0 : 0.0));
      }
    }
    void* device_logits = upload(logits);
    void* device_labels = upload(labels);
    void* device_loss = alloc(loss.size() * 4);
    void* device_reductions = alloc(sums.size() * 4);
    run({KEEL_OP_CROSS_ENTROPY,
         {floats(device_logits, {n, v}), ints(device_labels, {n})},
         {floats(device_loss, {n}), floats(device_reductions, {n})},
         {}});
    expect_near(device_loss, loss, 2e-6, 2e-6, "loss");
    expect_near(device_reductions, sums, 1e-6, 1e-6, "logsumexp");
    run({KEEL_OP_CROSS_ENTROPY_BACKWARD,
         {floats(device_logits, {n, v}), ints(device_labels, {n}), floats(device_reductions, {n})},
         {floats(device_logits, {n, v})},
         {real(kScale)}});
    // Near 5000 the last place of logsumexp is 5e-4; the probabilities keep the lost digits.
    expect_near(device_logits, gradient, 1.2e-5, 1e-7, "cross_entropy_backward");
  }
}

TEST_F(VulkanOps, AdamwTakesOneStep) {
  for (int64_t step : {1, 10, 100000}) {
    const size_t count = 3001;
    const auto n = static_cast<int64_t>(count);
    const auto p = random_floats(count, 12);
    const auto g = random_floats(count, 13);
    const auto m = random_floats(count, 14, 0.1F);
    auto v = random_floats(count, 15, 0.1F);
    for (float& value : v) value *= value;
    const double lr = 1e-3;
    const double beta1 = 0.9;
    const double beta2 = 0.999;
    const double eps = 1e-8;
    const double decay = 0.01;
    const double grad_scale = 0.5;
    std::vector<double> new_p(count);
    std::vector<double> new_m(count);
    std::vector<double> new_v(count);
    for (size_t i = 0; i < count; ++i) {
      const double gradient = g[i] * grad_scale;
      new_m[i] = beta1 * m[i] + (1 - beta1) * gradient;
      new_v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
      const double m_hat = new_m[i] / (1 - std::pow(beta1, step));
      const double v_hat = new_v[i] / (1 - std::pow(beta2, step));
      new_p[i] = p[i] - lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * p[i]);
    }
    const keel_tensor tp = floats(upload(p), {n});
    const keel_tensor tm = floats(upload(m), {n});
    const keel_tensor tv = floats(upload(v), {n});
    run({KEEL_OP_ADAMW,
         {tp, floats(upload(g), {n}), tm, tv},
         {tp, tm, tv},
         {real(lr), real(beta1), real(beta2), real(eps), real(decay), integer(step),
          real(grad_scale)}});
    expect_near(tp.data, new_p, 1e-6, 1e-6, "p");
    expect_near(tm.data, new_m, 1e-6, 1e-7, "m");
    expect_near(tv.data, new_v, 1e-6, 1e-9, "v");
  }
}

TEST_F(VulkanOps, StridedCallsAreDeclined) {
  void* data = alloc(4096);
  keel_tensor strided = floats(data, {4, 4});
  strided.strides[0] = 8;
  const keel_tensor dense = floats(data, {4, 4});
  EXPECT_EQ(query({KEEL_OP_ADD, {strided, dense}, {dense}, {}}).level,
            static_cast<uint32_t>(KEEL_OP_NONE));
  keel_tensor transposed = dense;
  std::swap(transposed.strides[0], transposed.strides[1]);
  EXPECT_EQ(query({KEEL_OP_MATMUL,
                   {transposed, dense},
                   {dense},
                   {integer(0), integer(0), real(1), real(0), integer(0)}})
                .level,
            static_cast<uint32_t>(KEEL_OP_NONE));
}

}  // namespace

}  // namespace keel::vulkan
