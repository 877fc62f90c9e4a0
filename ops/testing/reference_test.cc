// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

// ---- every case -------------------------------------------------------------------------

// Under a sanitizer only every fourth case runs, because all of them take 30 s.
#if defined(__SANITIZE_ADDRESS__)
constexpr size_t kEvery = 4;
#else
constexpr size_t kEvery = 1;
#endif

TEST(Reference, RunsEveryCaseAndIsCloseToItsOwnRounding) {
  size_t number = 0;
  for (const Case& each : all_cases()) {
    if (number++ % kEvery != 0) continue;
    SCOPED_TRACE(each.id);
    CaseData data(each, /*seed=*/1);
    ReferenceResult result;
    ASSERT_EQ(run_reference(data.call(), &result), KEEL_OK);
    ASSERT_EQ(result.outputs.size(), each.outputs.size());
    const Tolerance tolerance =
        tolerance_of(data.call(), find_schema(each.op)->dtypes[each.combination].tolerance);
    for (size_t o = 0; o < result.outputs.size(); ++o) {
      const ReferenceOutput& output = result.outputs[o];
      const keel_dtype dtype = each.outputs[o].dtype;
      ASSERT_EQ(output.magnitudes.size(), output.values.size());
      std::vector<double> rounded(output.values.size());
      bool matches = true;
      bool sized = true;
      for (size_t i = 0; i < rounded.size(); ++i) {
        rounded[i] = round_to_dtype(output.values[i], dtype);
        matches &=
            element_matches(tolerance, dtype, rounded[i], output.values[i], output.magnitudes[i]);
        sized &= !std::isfinite(output.values[i]) ||
                 (output.magnitudes[i] >= 0 && std::isfinite(output.magnitudes[i]));
      }
      EXPECT_TRUE(matches);
      EXPECT_TRUE(sized) << "a finite value of unknown magnitude";
      EXPECT_LE(normalised_error(rounded, output.values, tolerance.absolute), tolerance.nmse);
    }
  }
}

TEST(Reference, LeavesTheOutputsAlone) {
  Host x({3}, std::vector<float>{1, 2, 3});
  run(KEEL_OP_GELU, {&x.tensor}, {&x.tensor}, {int_attribute(0)});
  EXPECT_EQ(x.floats, (std::vector<float>{1, 2, 3}));
}

TEST(Reference, RefusesWhatCheckCallRefuses) {
  keel_op_call call = {};
  ReferenceResult result;
  EXPECT_EQ(run_reference(call, &result), KEEL_INVALID_ARGUMENT);
}

// ---- forward, against formulas written down apart ----------------------------------------

TEST(Reference, Matmul) {
  const size_t m = 3, n = 4, k = 5;
  const std::vector<float> a = random_floats(m * k, 0);
  const std::vector<float> b = random_floats(k * n, 1);
  const std::vector<float> bias_values = random_floats(n, 2);
  const std::vector<float> old = random_floats(m * n, 3);
  std::vector<double> want(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      double dot = 0;
      for (size_t l = 0; l < k; ++l) dot += double{a[i * k + l]} * double{b[l * n + j]};
      want[i * n + j] = 0.5 * dot - 2.0 * double{old[i * n + j]} + double{bias_values[j]};
    }
  }
  const auto transpose = [](const std::vector<float>& values, size_t rows, size_t cols) {
    std::vector<float> result(values.size());
    for (size_t row = 0; row < rows; ++row) {
      for (size_t col = 0; col < cols; ++col) result[col * rows + row] = values[row * cols + col];
    }
    return result;
  };
  for (int transposes = 0; transposes < 4; ++transposes) {
    SCOPED_TRACE(transposes);
    const bool ta = (transposes & 2) != 0;
    const bool tb = (transposes & 1) != 0;
    Host left(ta ? std::vector<int64_t>{5, 3} : std::vector<int64_t>{3, 5},
              ta ? transpose(a, m, k) : a);
    Host right(tb ? std::vector<int64_t>{4, 5} : std::vector<int64_t>{5, 4},
               tb ? transpose(b, k, n) : b);
    Host bias({4}, bias_values);
    Host c({3, 4}, old);
    const ReferenceResult result =
        run(KEEL_OP_MATMUL, {&left.tensor, &right.tensor, &bias.tensor}, {&c.tensor},
            {int_attribute(ta ? 1 : 0), int_attribute(tb ? 1 : 0), float_attribute(0.5),
             float_attribute(-2), int_attribute(0)});
    expect_near(result.outputs[0].values, want, 1e-12);
  }
}

TEST(Reference, MatmulWithBetaZeroDoesNotReadC) {
  Host a({1, 2}, std::vector<float>{1, 2});
  Host b({2, 1}, std::vector<float>{3, 4});
  Host c({1, 1}, std::vector<float>{std::nanf("")});
  const ReferenceResult result = run(KEEL_OP_MATMUL, {&a.tensor, &b.tensor, nullptr}, {&c.tensor},
                                     {int_attribute(0), int_attribute(0), float_attribute(1),
                                      float_attribute(0), int_attribute(0)});
  EXPECT_EQ(result.outputs[0].values[0], 11);
  EXPECT_DOUBLE_EQ(result.outputs[0].magnitudes[0], std::sqrt(2) * 11);
}

// Activations of 1 * x + bias equal those of the activation operators on x and bias.
TEST(Reference, MatmulEndsInAnActivation) {
  Host x({4, 1}, std::vector<float>{0, 1, -3, 10});
  Host one({1, 1}, std::vector<float>{1});
  Host bias({1}, std::vector<float>{0.5F});
  Host c({4, 1}, std::vector<float>(4));
  const auto matmul = [&](int64_t activation) {
    return run(KEEL_OP_MATMUL, {&x.tensor, &one.tensor, &bias.tensor}, {&c.tensor},
               {int_attribute(0), int_attribute(0), float_attribute(1), float_attribute(0),
                int_attribute(activation)})
        .outputs[0]
        .values;
  };
  for (const int64_t form : {0, 1}) {
    expect_near(
        matmul(1 + form),
        run(KEEL_OP_BIAS_GELU, {&x.tensor, &bias.tensor}, {&c.tensor}, {int_attribute(form)})
            .outputs[0]
            .values,
        1e-12);
  }
  const auto silu = [](double t) { return t / (1 + std::exp(-t)); };
  expect_near(matmul(3), {silu(0.5), silu(1.5), silu(-2.5), silu(10.5)}, 1e-12);
}

// Infinities give the limits, not an infinity times 0. NaN stays NaN.
TEST(Reference, ActivationsOfInfinities) {
  const float infinity = std::numeric_limits<float>::infinity();
  Host x({3, 1}, std::vector<float>{infinity, -infinity, std::nanf("")});
  Host one({1, 1}, std::vector<float>{1});
  Host c({3, 1}, std::vector<float>(3));
  for (const int64_t activation : {1, 2, 3}) {
    const std::vector<double> got =
        run(KEEL_OP_MATMUL, {&x.tensor, &one.tensor, nullptr}, {&c.tensor},
            {int_attribute(0), int_attribute(0), float_attribute(1), float_attribute(0),
             int_attribute(activation)})
            .outputs[0]
            .values;
    EXPECT_EQ(got[0], infinity);
    EXPECT_EQ(got[1], 0);
    EXPECT_TRUE(std::isnan(got[2]));
  }
}

TEST(Reference, Sum) {
  Host x({2, 3}, std::vector<float>{1, 2, 3, -4, 5, -6});
  Host rows({3}, std::vector<float>(3));
  Host cols({2}, std::vector<float>(2));
  Host all({}, std::vector<float>(1));
  EXPECT_EQ(run(KEEL_OP_SUM, {&x.tensor}, {&rows.tensor}, {int_attribute(0)}).outputs[0].values,
            (std::vector<double>{-3, 7, -3}));
  EXPECT_EQ(run(KEEL_OP_SUM, {&x.tensor}, {&cols.tensor}, {int_attribute(1)}).outputs[0].values,
            (std::vector<double>{6, -5}));
  const ReferenceResult result = run(KEEL_OP_SUM, {&x.tensor}, {&all.tensor}, {int_attribute(-1)});
  EXPECT_EQ(result.outputs[0].values, (std::vector<double>{1}));
  EXPECT_DOUBLE_EQ(result.outputs[0].magnitudes[0], std::sqrt(6) * 21);
}

TEST(Reference, GeluAtKnownPoints) {
  Host x({4}, std::vector<float>{0, 1, -1, 10});
  const std::vector<double> values =
      run(KEEL_OP_GELU, {&x.tensor}, {&x.tensor}, {int_attribute(0)}).outputs[0].values;
  // tanh(0.7978845608 * 1.044715) = 0.6823838...
  expect_near(values, {0, 0.8411919906082768, -0.15880800939172324, 10}, 1e-12);
}

TEST(Reference, GeluByErfAtKnownPoints) {
  Host x({4}, std::vector<float>{0, 1, -1, 10});
  const std::vector<double> values =
      run(KEEL_OP_GELU, {&x.tensor}, {&x.tensor}, {int_attribute(1)}).outputs[0].values;
  // The normal distribution function at 1 is 0.8413447...
  expect_near(values, {0, 0.8413447460685429, -0.15865525393145707, 10}, 1e-12);
}

TEST(Reference, CrossEntropy) {
  Host logits({3, 3}, std::vector<float>{0, 0, 0, 1, 2, 3, 1000, 0, 0});
  Host labels({3}, std::vector<int32_t>{1, 0, 3});
  Host loss({3}, std::vector<float>(3));
  Host logsumexp({3}, std::vector<float>(3));
  const ReferenceResult result = run(KEEL_OP_CROSS_ENTROPY, {&logits.tensor, &labels.tensor},
                                     {&loss.tensor, &logsumexp.tensor});
  const double second = std::log(std::exp(1) + std::exp(2) + std::exp(3));
  expect_near(result.outputs[1].values, {std::log(3), second, 1000}, 1e-12);
  expect_near(result.outputs[0].values, {std::log(3), second - 1, 0}, 1e-12);
}

TEST(Reference, MaskedLogitsDropOut) {
  const auto masked = -std::numeric_limits<float>::infinity();
  Host logits({1, 3}, std::vector<float>{masked, 2, masked});
  Host labels({1}, std::vector<int32_t>{0});
  Host loss({1}, std::vector<float>(1));
  Host logsumexp({1}, std::vector<float>(1));
  const ReferenceResult result = run(KEEL_OP_CROSS_ENTROPY, {&logits.tensor, &labels.tensor},
                                     {&loss.tensor, &logsumexp.tensor});
  EXPECT_EQ(result.outputs[1].values[0], 2);
  EXPECT_EQ(result.outputs[0].values[0], kInfinity);
}

TEST(Reference, NaNBesideMaskedLogitsIsTheirSum) {
  const auto masked = -std::numeric_limits<float>::infinity();
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  Host logits({3, 2}, std::vector<float>{masked, nan, nan, masked, masked, masked});
  Host labels({3}, std::vector<int32_t>{-1, -1, -1});
  Host loss({3}, std::vector<float>(3));
  Host logsumexp({3}, std::vector<float>(3));
  const ReferenceResult result = run(KEEL_OP_CROSS_ENTROPY, {&logits.tensor, &labels.tensor},
                                     {&loss.tensor, &logsumexp.tensor});
  EXPECT_TRUE(std::isnan(result.outputs[1].values[0]));
  EXPECT_TRUE(std::isnan(result.outputs[1].values[1]));
  EXPECT_EQ(result.outputs[1].values[2], -kInfinity);
}

TEST(Reference, EmbeddingAndItsBackward) {
  Host table({2, 2}, std::vector<float>{1, 2, 3, 4});
  Host indices({4}, std::vector<int32_t>{1, -1, 1, 2});
  Host out({4, 2}, std::vector<float>{1, 10, 2, 20, 3, 30, 4, 40});
  EXPECT_EQ(
      run(KEEL_OP_EMBEDDING, {&table.tensor, &indices.tensor}, {&out.tensor}, {int_attribute(0)})
          .outputs[0]
          .values,
      (std::vector<double>{3, 4, 0, 0, 3, 4, 0, 0}));
  EXPECT_EQ(run(KEEL_OP_EMBEDDING_BACKWARD, {&out.tensor, &indices.tensor}, {&table.tensor},
                {int_attribute(0)})
                .outputs[0]
                .values,
            (std::vector<double>{0, 0, 4, 40}));
}

// Rows 5 and 6 of a vocabulary, and 2^31 - 2 and 2^31 - 1, the last ones with an index.
TEST(Reference, EmbeddingOfARangeOfTheVocabulary) {
  Host table({2, 2}, std::vector<float>{1, 2, 3, 4});
  Host out({4, 2}, std::vector<float>{1, 10, 2, 20, 3, 30, 4, 40});
  constexpr int64_t kLast = int64_t{1} << 31;
  for (const int64_t first : {int64_t{5}, kLast - 2}) {
    const std::vector<keel_attribute> attributes = {int_attribute(first)};
    const auto row = [&](int64_t index) { return static_cast<int32_t>(first + index); };
    Host indices({4}, std::vector<int32_t>{row(1), row(-1), row(1), row(0)});
    EXPECT_EQ(run(KEEL_OP_EMBEDDING, {&table.tensor, &indices.tensor}, {&out.tensor}, attributes)
                  .outputs[0]
                  .values,
              (std::vector<double>{3, 4, 0, 0, 3, 4, 1, 2}));
    EXPECT_EQ(
        run(KEEL_OP_EMBEDDING_BACKWARD, {&out.tensor, &indices.tensor}, {&table.tensor}, attributes)
            .outputs[0]
            .values,
        (std::vector<double>{4, 40, 4, 40}));
    // Indices of a whole vocabulary's first rows, and invalid ones.
    Host elsewhere({4}, std::vector<int32_t>{1, 0, -1, std::numeric_limits<int32_t>::min()});
    EXPECT_EQ(run(KEEL_OP_EMBEDDING, {&table.tensor, &elsewhere.tensor}, {&out.tensor}, attributes)
                  .outputs[0]
                  .values,
              std::vector<double>(8, 0));
    EXPECT_EQ(run(KEEL_OP_EMBEDDING_BACKWARD, {&out.tensor, &elsewhere.tensor}, {&table.tensor},
                  attributes)
                  .outputs[0]
                  .values,
              std::vector<double>(4, 0));
  }
}

TEST(Reference, EmbeddingRefusesRangesThatNoIndexReaches) {
  Host table({2, 2}, std::vector<float>{1, 2, 3, 4});
  Host indices({4}, std::vector<int32_t>{0, 1, 2, 3});
  Host out({4, 2}, std::vector<float>(8));
  const std::pair<int64_t, std::string> refused[] = {
      {-1, "attribute first: -1 is not within"},
      {(int64_t{1} << 31) - 1, "attribute first: 2147483647 and 2 rows"}};
  for (const auto& [first, text] : refused) {
    const std::vector<keel_attribute> attributes = {int_attribute(first)};
    EXPECT_NE(
        refusal(KEEL_OP_EMBEDDING, {&table.tensor, &indices.tensor}, {&out.tensor}, attributes)
            .find("embedding: " + text),
        std::string::npos);
    EXPECT_NE(refusal(KEEL_OP_EMBEDDING_BACKWARD, {&out.tensor, &indices.tensor}, {&table.tensor},
                      attributes)
                  .find("embedding_backward: " + text),
              std::string::npos);
  }
}

TEST(Reference, AdamwFirstStepMovesByTheLearningRate) {
  // With m = v = 0 the corrected update is g / |g| whatever the gradient's scale.
  Host p({2}, std::vector<float>{1, 2});
  Host g({2}, std::vector<float>{1024, -2048});
  Host m({2}, std::vector<float>{0, 0});
  Host v({2}, std::vector<float>{0, 0});
  const ReferenceResult result =
      run(KEEL_OP_ADAMW, {&p.tensor, &g.tensor, &m.tensor, &v.tensor},
          {&p.tensor, &m.tensor, &v.tensor},
          {float_attribute(0.125), float_attribute(0.9), float_attribute(0.999), float_attribute(0),
           float_attribute(0.5), int_attribute(1), float_attribute(1.0 / 1024)});
  expect_near(result.outputs[0].values, {1 - 0.125 * (1 + 0.5), 2 - 0.125 * (-1 + 1)}, 1e-12);
  expect_near(result.outputs[1].values, {0.1, -0.2}, 1e-12);
  expect_near(result.outputs[2].values, {0.001, 0.004}, 1e-12);
}

// ---- backward, against central differences of the forward reference ----------------------

TEST(Gradient, Gelu) {
  std::vector<float> points = random_floats(40, 0);
  for (float& point : points) point *= 4;
  Host x({40}, points);
  Host dy({40}, random_floats(40, 1));
  Host dx({40}, std::vector<float>(40));
  for (const int64_t form : {0, 1}) {
    const std::vector<keel_attribute> attributes = {int_attribute(form)};
    const std::vector<double> want = central_differences(&x.floats, [&] {
      return dot(run(KEEL_OP_GELU, {&x.tensor}, {&dx.tensor}, attributes).outputs[0].values,
                 dy.floats);
    });
    const ReferenceResult slopes =
        run(KEEL_OP_GELU_BACKWARD, {&x.tensor, &dy.tensor}, {&dx.tensor}, attributes);
    expect_near(slopes.outputs[0].values, want, 2e-6);
  }
}

TEST(Gradient, Embedding) {
  Host table({5, 3}, random_floats(15, 0));
  Host indices({7}, std::vector<int32_t>{4, 0, 4, -1, 2, 5, 4});
  Host dout({7, 3}, random_floats(21, 1));
  Host out({7, 3}, std::vector<float>(21));
  Host dtable({5, 3}, std::vector<float>(15));
  for (const int64_t first : {0, 2}) {
    const std::vector<keel_attribute> attributes = {int_attribute(first)};
    const std::vector<double> want = central_differences(&table.floats, [&] {
      return dot(run(KEEL_OP_EMBEDDING, {&table.tensor, &indices.tensor}, {&out.tensor}, attributes)
                     .outputs[0]
                     .values,
                 dout.floats);
    });
    const ReferenceResult sums = run(KEEL_OP_EMBEDDING_BACKWARD, {&dout.tensor, &indices.tensor},
                                     {&dtable.tensor}, attributes);
    expect_near(sums.outputs[0].values, want, 1e-9);
  }
}

TEST(Gradient, CrossEntropy) {
  Host logits({4, 6}, random_floats(24, 0));
  Host labels({4}, std::vector<int32_t>{5, 0, -1, 3});
  Host loss({4}, std::vector<float>(4));
  Host logsumexp({4}, std::vector<float>(4));
  Host dlogits({4, 6}, std::vector<float>(24));
  const auto forward = [&] {
    return run(KEEL_OP_CROSS_ENTROPY, {&logits.tensor, &labels.tensor},
               {&loss.tensor, &logsumexp.tensor});
  };
  const std::vector<double> want = central_differences(&logits.floats, [&] {
    const std::vector<double> losses = forward().outputs[0].values;
    return 0.25 * std::accumulate(losses.begin(), losses.end(), 0.0);
  });
  const std::vector<double> sums = forward().outputs[1].values;
  for (size_t i = 0; i < 4; ++i) logsumexp.floats[i] = static_cast<float>(sums[i]);
  expect_near(
      run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {&logits.tensor, &labels.tensor, &logsumexp.tensor},
          {&dlogits.tensor}, {float_attribute(0.25)})
          .outputs[0]
          .values,
      want, 1e-6);
}

// Returns gradients of three logits with |offset| in common, the second one the label, for the
// logsumexp that float32 stores for them, plus |beside|.
std::vector<double> gradients_at(float offset, float beside) {
  Host logits({1, 3}, std::vector<float>{offset, offset + 16, offset - 8});
  Host labels({1}, std::vector<int32_t>{1});
  const double sum = 1 + std::exp(logits.floats[1] - logits.floats[0]) +
                     std::exp(logits.floats[2] - logits.floats[0]);
  Host logsumexp({1}, std::vector<float>{static_cast<float>(offset + std::log(sum)) + beside});
  Host dlogits({1, 3}, std::vector<float>(3));
  return run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {&logits.tensor, &labels.tensor, &logsumexp.tensor},
             {&dlogits.tensor}, {float_attribute(1)})
      .outputs[0]
      .values;
}

TEST(Gradient, OfCrossEntropyAddsUpToZeroAtAnyOffset) {
  for (const float offset : {1e3f, -1e5f, 1e5f, 1e8f}) {
    SCOPED_TRACE(offset);
    const std::vector<double> got = gradients_at(offset, 0);
    EXPECT_NEAR(got[0] + got[1] + got[2], 0, 1e-9);
    EXPECT_GT(got[0], 0);
  }
}

TEST(Gradient, OfCrossEntropyIsByTheLogSumGivenWhereThatIsAnother) {
  EXPECT_NEAR(gradients_at(1e5f, -2)[1], std::exp(2) - 1, 0.05);
  EXPECT_NEAR(gradients_at(1, 1e-3f)[1], std::exp(-1e-3) - 1, 1e-5);
}

// ---- comparison ---------------------------------------------------------------------------

TEST(ElementMatches, ZeroToleranceMeansCorrectlyRounded) {
  const Tolerance exact = {0, 0, 0, 0};
  EXPECT_TRUE(element_matches(exact, KEEL_BFLOAT16, 1, 1 + 0x1p-8, 0));  // a tie, to even
  EXPECT_FALSE(element_matches(exact, KEEL_BFLOAT16, 1 + 0x1p-7, 1 + 0x1p-8, 0));
  EXPECT_TRUE(element_matches(exact, KEEL_BFLOAT16, 1 + 0x1p-7, 1 + 0x1p-8 + 0x1p-20, 0));
  EXPECT_TRUE(element_matches(exact, KEEL_INT32, -2, -2.75, 0));
  EXPECT_FALSE(element_matches(exact, KEEL_INT32, -3, -2.75, 0));
}

TEST(ElementMatches, NonFiniteValuesMustBeThere) {
  const Tolerance loose = {1, 1, 1, 0};
  EXPECT_TRUE(element_matches(loose, KEEL_FLOAT32, kNaN, kNaN, 0));
  EXPECT_FALSE(element_matches(loose, KEEL_FLOAT32, 0, kNaN, 0));
  EXPECT_FALSE(element_matches(loose, KEEL_FLOAT32, kNaN, 0, 0));
  EXPECT_TRUE(element_matches(loose, KEEL_FLOAT32, -kInfinity, -kInfinity, kInfinity));
  EXPECT_FALSE(element_matches(loose, KEEL_FLOAT32, kInfinity, -kInfinity, 0));
  EXPECT_FALSE(element_matches(loose, KEEL_FLOAT32, kInfinity, 1, 1));
  const Tolerance exact = {0, 0, 0, 0};
  EXPECT_TRUE(element_matches(exact, KEEL_FLOAT16, kInfinity, 65520, 0));
  EXPECT_FALSE(element_matches(exact, KEEL_FLOAT16, 65504, 65520, 0));
  EXPECT_TRUE(element_matches(exact, KEEL_FLOAT16, 65504, 65519, 0));
}

TEST(ElementMatches, BoundAddsItsThreeParts) {
  const Tolerance tolerance = {0.5, 0.25, 0.125, 0};
  // 0.5 + 0.25 * 8 + 0.125 * 16 = 4.5
  EXPECT_TRUE(element_matches(tolerance, KEEL_FLOAT32, 12.5, 8, 16));
  EXPECT_TRUE(element_matches(tolerance, KEEL_FLOAT32, 3.5, 8, 16));
  EXPECT_FALSE(element_matches(tolerance, KEEL_FLOAT32, 12.51, 8, 16));
  EXPECT_FALSE(element_matches(tolerance, KEEL_FLOAT32, 3.49, 8, 16));
}

TEST(NormalisedError, IsRelativeToTheEnergy) {
  const double want[] = {3, 4, kNaN, kInfinity};
  const double got[] = {3.3, 4, 0, 0};
  EXPECT_NEAR(normalised_error(got, want, 0), 0.09 / 25, 1e-15);
  EXPECT_EQ(normalised_error(got, want, 0.5), 0);
  const double zeroes[] = {0, 0, 0, 0};
  EXPECT_EQ(normalised_error(zeroes, zeroes, 0), 0);
}

TEST(RoundToDtype, Integers) {
  EXPECT_EQ(round_to_dtype(-2.9, KEEL_INT32), -2);
  EXPECT_EQ(round_to_dtype(300, KEEL_UINT8), 255);
  EXPECT_EQ(round_to_dtype(-1, KEEL_UINT8), 0);
  EXPECT_EQ(round_to_dtype(1e30, KEEL_INT32), 0x1p31 - 1);
  EXPECT_EQ(round_to_dtype(-1e30, KEEL_INT64), -0x1p63);
}

}  // namespace
}  // namespace keel::ops
