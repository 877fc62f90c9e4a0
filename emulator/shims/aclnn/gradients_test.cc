// SPDX-License-Identifier: Apache-2.0
// The gradients and the operators that losses need: against derivatives by finite differences, or
// numbers made by hand.
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "emulator/shims/aclnn/testing/aclnn_test.h"

namespace {

using keel::emulator::testing::differentiate;
using keel::emulator::testing::expect_near;
using keel::emulator::testing::kBadParameter;
using keel::emulator::testing::kNullPointer;
using keel::emulator::testing::widen;

constexpr float kInfinity = INFINITY;

class AclnnGradientsTest : public keel::emulator::testing::AclnnTest {};
using AclnnElementsTest = AclnnGradientsTest;

std::vector<double> gelu(const std::vector<double>& x, bool by_tanh) {
  std::vector<double> y;
  for (const double v : x) {
    const double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    y.push_back(0.5 * v * (1 + (by_tanh ? std::tanh(inner) : std::erf(v / std::sqrt(2.0)))));
  }
  return y;
}

std::vector<double> swiglu(const std::vector<double>& x, size_t columns) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size() / 2; ++i) {
    const size_t at = i / columns * 2 * columns + i % columns;
    y.push_back(x[at] / (1 + std::exp(-x[at])) * x[at + columns]);
  }
  return y;
}

std::vector<double> softmax(const std::vector<double>& x, size_t columns) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < columns; ++j) sum += std::exp(x[i / columns * columns + j]);
    y.push_back(std::exp(x[i]) / sum);
  }
  return y;
}

struct Norm {
  std::vector<double> y;
  std::vector<float> means;
  std::vector<float> rstd;
};

// A norm of rows of |gamma.size()| elements; RmsNorm if not |is_centred|.
Norm norm(const std::vector<double>& x, const std::vector<double>& gamma,
          const std::vector<double>& beta, bool is_centred) {
  const size_t columns = gamma.size();
  Norm norm;
  for (size_t begin = 0; begin < x.size(); begin += columns) {
    double mean = 0;
    double squares = 0;
    for (size_t i = 0; i < columns; ++i) mean += is_centred ? x[begin + i] / columns : 0;
    for (size_t i = 0; i < columns; ++i) squares += std::pow(x[begin + i] - mean, 2);
    const double rstd = 1 / std::sqrt(squares / columns + 1e-5);
    for (size_t i = 0; i < columns; ++i) {
      norm.y.push_back((x[begin + i] - mean) * rstd * gamma[i] + beta[i]);
    }
    norm.means.push_back(static_cast<float>(mean));
    norm.rstd.push_back(static_cast<float>(rstd));
  }
  return norm;
}

TEST_F(AclnnGradientsTest, GeluAndItsGradientHaveTwoForms) {
  const std::vector<float> x = {-3, -0.5f, 0, 0.75f, 2.5f};
  const std::vector<float> dy = {1, 2, -1, 0.5f, 3};
  for (const bool by_tanh : {false, true}) {
    std::string form = by_tanh ? "tanh" : "none";
    aclTensor* const out = result({5});
    EXPECT_EQ(ACLNN(GeluV2, floats({5}, x), by_tanh ? ACLNN_GELU_TANH : ACLNN_GELU_ERF, out), 0);
    expect_near(read(out), gelu(widen(x), by_tanh));
    EXPECT_EQ(ACLNN(GeluBackwardV2, floats({5}, dy), floats({5}, x), form.data(), out), 0);
    expect_near(read(out),
                differentiate([&](const auto& v) { return gelu(v, by_tanh); }, widen(x), dy));
    EXPECT_EQ(ACLNN(GeluBackwardV2, floats({5}, {1, 1, 1, 1, 1}),
                    floats({5}, {-kInfinity, kInfinity, -1e30f, 1e30f, NAN}), form.data(), out),
              0);
    const std::vector<float> limits = read(out);
    EXPECT_EQ(std::vector<float>(limits.begin(), limits.end() - 1),
              (std::vector<float>{0, 1, 0, 1}));
    EXPECT_TRUE(std::isnan(limits[4]));
  }
}

TEST_F(AclnnGradientsTest, GeluRefusesOtherForms) {
  aclTensor* const x = floats({2}, {1, 2});
  std::string form = "sigmoid";
  EXPECT_EQ(ACLNN(GeluV2, x, 2, x), kBadParameter);
  EXPECT_EQ(ACLNN(GeluV2, nullptr, ACLNN_GELU_ERF, x), kNullPointer);
  EXPECT_EQ(ACLNN(GeluBackwardV2, x, x, form.data(), x), kBadParameter);
  EXPECT_EQ(ACLNN(GeluBackwardV2, x, x, nullptr, x), kNullPointer);
  EXPECT_EQ(ACLNN(GeluBackwardV2, floats({1}, {1}), x, form.data(), x), kBadParameter);
}

TEST_F(AclnnGradientsTest, SwiGluGradIsTheDerivative) {
  const std::vector<float> x = {0.5f, -1, 2, 0.25f, -4, 3, 1.5f, -0.75f};
  const std::vector<float> dy = {1, -2, 0.5f, 3};
  aclTensor* const dx = result({2, 4});
  EXPECT_EQ(ACLNN(SwiGluGrad, floats({2, 2}, dy), floats({2, 4}, x), -1, dx), 0);
  expect_near(read(dx), differentiate([](const auto& v) { return swiglu(v, 2); }, widen(x), dy));
  const aclTensor* const limits = result({3, 2});
  EXPECT_EQ(ACLNN(SwiGluGrad, floats({3, 1}, {1, 1, 1}),
                  floats({3, 2}, {-kInfinity, 3, kInfinity, 3, NAN, 3}), 1, limits),
            0);
  const std::vector<float> values = read(limits);
  EXPECT_EQ(std::vector<float>(values.begin(), values.begin() + 4),
            (std::vector<float>{0, 0, 3, kInfinity}));
  EXPECT_TRUE(std::isnan(values[4]) && std::isnan(values[5]));
}

TEST_F(AclnnGradientsTest, SwiGluGradRefusesGapsAndOtherAxes) {
  aclTensor* const x = result({2, 4});
  aclTensor* const dy = result({2, 2});
  EXPECT_EQ(ACLNN(SwiGluGrad, tensor(0, {2, 2}, {1, 2}), x, -1, x), kBadParameter);
  EXPECT_EQ(ACLNN(SwiGluGrad, dy, x, -1, tensor(0, {2, 4}, {8, 1})), kBadParameter);
  EXPECT_EQ(ACLNN(SwiGluGrad, dy, x, 0, x), kBadParameter);
  EXPECT_EQ(ACLNN(SwiGluGrad, x, x, -1, x), kBadParameter);
  EXPECT_EQ(ACLNN(SwiGluGrad, dy, nullptr, -1, x), kNullPointer);
}

TEST_F(AclnnGradientsTest, SoftmaxBackwardIsTheDerivative) {
  const std::vector<float> x = {0.5f, -1, 2, 0.25f, -4, 3};
  const std::vector<float> dy = {1, -2, 0.5f, 3, 1, -1};
  const std::vector<double> y = softmax(widen(x), 3);
  aclTensor* const dx = result({2, 3});
  EXPECT_EQ(ACLNN(SoftmaxBackward, floats({2, 3}, dy),
                  floats({2, 3}, std::vector<float>(y.begin(), y.end())), 1, dx),
            0);
  expect_near(read(dx), differentiate([](const auto& v) { return softmax(v, 3); }, widen(x), dy));
  EXPECT_EQ(ACLNN(SoftmaxBackward, dx, dx, 2, dx), kBadParameter);
  EXPECT_EQ(ACLNN(SoftmaxBackward, dx, nullptr, 1, dx), kNullPointer);
}

TEST_F(AclnnGradientsTest, LayerNormBackwardIsTheDerivative) {
  const std::vector<float> x = {0.5f, -1, 2, 0.25f, -4, 3};
  const std::vector<float> dy = {1, -2, 0.5f, 3, 1, -1};
  const std::vector<double> gamma = {1.5, -2, 0.5};
  const std::vector<double> beta = {0, 1, 2};
  const Norm forward = norm(widen(x), gamma, beta, true);
  const int64_t extent = 3;
  const bool all[] = {true, true, true};
  const bool first[] = {true, false, false};
  aclIntArray* const shape = NNOPBASE(aclCreateIntArray)(&extent, 1);
  aclBoolArray* const mask = NNOPBASE(aclCreateBoolArray)(all, 3);
  aclBoolArray* const only_dx = NNOPBASE(aclCreateBoolArray)(first, 3);
  aclBoolArray* const short_mask = NNOPBASE(aclCreateBoolArray)(all, 2);
  aclTensor* const grad = floats({2, 3}, dy);
  aclTensor* const from = floats({2, 3}, x);
  aclTensor* const means = floats({2, 1}, forward.means);
  aclTensor* const rstd = floats({2, 1}, forward.rstd);
  aclTensor* const scale = floats({3}, {1.5f, -2, 0.5f});
  aclTensor* const dx = result({2, 3});
  aclTensor* const dgamma = result({3});
  aclTensor* const dbeta = result({3});
  EXPECT_EQ(ACLNN(LayerNormBackward, grad, from, shape, means, rstd, scale, nullptr, mask, dx,
                  dgamma, dbeta),
            0);
  expect_near(read(dx), differentiate([&](const auto& v) { return norm(v, gamma, beta, true).y; },
                                      widen(x), dy));
  expect_near(
      read(dgamma),
      differentiate([&](const auto& v) { return norm(widen(x), v, beta, true).y; }, gamma, dy));
  expect_near(read(dbeta), {4, -1, -0.5});
  EXPECT_EQ(ACLNN(LayerNormBackward, grad, from, shape, means, rstd, nullptr, nullptr, only_dx, dx,
                  nullptr, nullptr),
            0);
  const std::vector<double> ones = {1, 1, 1};
  expect_near(read(dx), differentiate([&](const auto& v) { return norm(v, ones, beta, true).y; },
                                      widen(x), dy));
  EXPECT_EQ(ACLNN(LayerNormBackward, grad, from, shape, means, rstd, scale, nullptr, mask, dx,
                  nullptr, dbeta),
            kNullPointer);
  EXPECT_EQ(ACLNN(LayerNormBackward, grad, from, shape, means, rstd, scale, nullptr, short_mask, dx,
                  dgamma, dbeta),
            kBadParameter);
  EXPECT_EQ(ACLNN(LayerNormBackward, grad, from, shape, dgamma, rstd, scale, nullptr, mask, dx,
                  dgamma, dbeta),
            kBadParameter);
  for (const aclBoolArray* array : {mask, only_dx, short_mask}) {
    EXPECT_EQ(NNOPBASE(aclDestroyBoolArray)(array), 0);
  }
  EXPECT_EQ(NNOPBASE(aclDestroyIntArray)(shape), 0);
}

TEST_F(AclnnGradientsTest, RmsNormGradIsTheDerivative) {
  const std::vector<float> x = {0.5f, -1, 2, 0.25f, -4, 3};
  const std::vector<float> dy = {1, -2, 0.5f, 3, 1, -1};
  const std::vector<double> gamma = {1.5, -2, 0.5};
  const std::vector<double> none = {0, 0, 0};
  aclTensor* const rstd = floats({2}, norm(widen(x), gamma, none, false).rstd);
  aclTensor* const scale = floats({3}, {1.5f, -2, 0.5f});
  aclTensor* const dx = result({2, 3});
  aclTensor* const dgamma = result({3});
  EXPECT_EQ(ACLNN(RmsNormGrad, floats({2, 3}, dy), floats({2, 3}, x), rstd, scale, dx, dgamma), 0);
  expect_near(read(dx), differentiate([&](const auto& v) { return norm(v, gamma, none, false).y; },
                                      widen(x), dy));
  expect_near(
      read(dgamma),
      differentiate([&](const auto& v) { return norm(widen(x), v, none, false).y; }, gamma, dy));
  EXPECT_EQ(ACLNN(RmsNormGrad, dx, dx, scale, scale, dx, dgamma), kBadParameter);
  EXPECT_EQ(ACLNN(RmsNormGrad, dx, dx, rstd, nullptr, dx, dgamma), kNullPointer);
}

TEST_F(AclnnGradientsTest, EmbeddingDenseBackwardSumsRowsButThePadding) {
  aclTensor* const dy = floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  aclTensor* const indices = dense<int32_t>(ACL_INT32, {4}, {2, 0, 2, 1});
  aclTensor* const table = result({3, 2});
  constexpr auto kNone = static_cast<uint64_t>(int64_t{-1});
  EXPECT_EQ(ACLNN(EmbeddingDenseBackward, dy, indices, 3, kNone, false, table), 0);
  EXPECT_EQ(read(table), (std::vector<float>{3, 4, 7, 8, 6, 8}));
  EXPECT_EQ(ACLNN(EmbeddingDenseBackward, dy, indices, 3, 2, false, table), 0);
  EXPECT_EQ(read(table), (std::vector<float>{3, 4, 7, 8, 0, 0}));
  EXPECT_EQ(ACLNN(EmbeddingDenseBackward, dy, indices, 3, kNone, true, table), kBadParameter);
  EXPECT_EQ(ACLNN(EmbeddingDenseBackward, dy, indices, 4, kNone, false, table), kBadParameter);
  EXPECT_EQ(ACLNN(EmbeddingDenseBackward, dy, indices, 2, kNone, false, result({2, 2})), 0);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(AclnnGradientsTest, DeterminismIsAnOptionOfTheContext) {
  for (const int64_t value : {0, 1}) {
    EXPECT_EQ(ACL(aclrtCtxSetSysParamOpt)(ACL_OPT_DETERMINISTIC, value), ACL_SUCCESS);
  }
  EXPECT_EQ(ACL(aclrtCtxSetSysParamOpt)(ACL_OPT_DETERMINISTIC, 2), ACL_ERROR_RT_PARAM_INVALID);
  EXPECT_EQ(ACL(aclrtCtxSetSysParamOpt)(static_cast<aclSysParamOpt>(1), 1),
            ACL_ERROR_RT_PARAM_INVALID);
  std::thread([] {
    EXPECT_EQ(ACL(aclrtCtxSetSysParamOpt)(ACL_OPT_DETERMINISTIC, 1), ACL_ERROR_RT_CONTEXT_NULL);
  }).join();
}

// ---- the operators of losses
// ---------------------------------------------------------------------

TEST_F(AclnnElementsTest, ComparisonsWithNaNAreFalseButForNe) {
  aclTensor* const x = floats({2, 3}, {1, 2, NAN, 4, kInfinity, -1});
  aclTensor* const other = floats({3}, {2, 2, NAN});
  aclTensor* const out = dense<uint8_t>(ACL_BOOL, {2, 3}, {7, 7, 7, 7, 7, 7});
  aclTensor* const wide = result({2, 3});
  float two = 2;
  aclScalar* const scalar = NNOPBASE(aclCreateScalar)(&two, ACL_FLOAT);
  const auto seen = [&] {
    EXPECT_EQ(ACLNN(Cast, out, ACL_FLOAT, wide), 0);
    return read(wide);
  };
  EXPECT_EQ(ACLNN(GeScalar, x, scalar, out), 0);
  EXPECT_EQ(seen(), (std::vector<float>{0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(ACLNN(LeScalar, x, scalar, out), 0);
  EXPECT_EQ(seen(), (std::vector<float>{1, 1, 0, 0, 0, 1}));
  EXPECT_EQ(ACLNN(LtTensor, x, other, out), 0);
  EXPECT_EQ(seen(), (std::vector<float>{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ACLNN(NeTensor, x, other, out), 0);
  EXPECT_EQ(seen(), (std::vector<float>{1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(ACLNN(GeScalar, x, scalar, wide), kBadParameter);
  EXPECT_EQ(ACLNN(NeTensor, x, other, wide), kBadParameter);
  EXPECT_EQ(ACLNN(LeScalar, x, nullptr, out), kNullPointer);
  NNOPBASE(aclDestroyScalar)(scalar);
}

TEST_F(AclnnElementsTest, LogAndTriuAreComputed) {
  aclTensor* const x = floats({2, 3}, {1, 2, 4, 0.5f, 8, 16});
  aclTensor* const y = result({2, 3});
  EXPECT_EQ(ACLNN(Log, x, y), 0);
  const double log2 = std::log(2.0);
  expect_near(read(y), {0, log2, 2 * log2, -log2, 3 * log2, 4 * log2});
  EXPECT_EQ(ACLNN(Triu, x, 1, x), 0);
  EXPECT_EQ(read(x), (std::vector<float>{0, 2, 4, 0, 0, 16}));
}

TEST_F(AclnnElementsTest, GatherTakesIndicesFromTheEnd) {
  aclTensor* const x = floats({2, 3}, {10, 11, 12, 20, 21, 22});
  aclTensor* const index = dense<int64_t>(ACL_INT64, {2, 2}, {2, 0, -1, 1});
  aclTensor* const out = result({2, 2});
  EXPECT_EQ(ACLNN(Gather, x, 1, index, out), 0);
  EXPECT_EQ(read(out), (std::vector<float>{12, 10, 22, 21}));
  EXPECT_EQ(ACLNN(Gather, x, 2, index, out), kBadParameter);
  EXPECT_EQ(ACLNN(Gather, x, 1, index, x), kBadParameter);
  EXPECT_EQ(ACLNN(Gather, x, 1, nullptr, out), kNullPointer);
  EXPECT_EQ(ACLNN(Gather, x, 0, index, out), 0);  // 2 is outside of the first axis
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(AclnnElementsTest, ScatterAddSumsTermsOfOnePlace) {
  aclTensor* const x = floats({2, 3}, {10, 11, 12, 20, 21, 22});
  aclTensor* const index = dense<int32_t>(ACL_INT32, {2, 2}, {2, 2, 0, 1});
  aclTensor* const src = floats({2, 3}, {1, 2, 99, 3, 4, 99});
  aclTensor* const out = result({2, 3});
  EXPECT_EQ(ACLNN(ScatterAdd, x, -1, index, src, out), 0);
  EXPECT_EQ(read(out), (std::vector<float>{10, 11, 15, 23, 25, 22}));
  EXPECT_EQ(ACLNN(ScatterAdd, x, 1, index, tensor(0, {2, 3}, {1, 2}), out), kBadParameter);
  EXPECT_EQ(ACLNN(ScatterAdd, x, 1, index, src, nullptr), kNullPointer);
  EXPECT_EQ(ACLNN(ScatterAdd, x, 0, index, src, out), 0);  // 2 is outside of the first axis
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

}  // namespace
