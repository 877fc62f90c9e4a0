// SPDX-License-Identifier: Apache-2.0
// Operators where the vendor's documents, or its library, leave a trap: values that are not finite,
// numbers beyond a type, an order of sums, functions that the library lacks.
#include <cmath>
#include <vector>

#include "backends/ascend/testing/device_test.h"
#include "core/testing/library_file.h"

namespace keel::testing {
namespace {

using AscendOpsTest = AscendTest;

constexpr float kInfinity = INFINITY;

std::vector<keel_attribute> attention_attributes(double scale = 1, int64_t causal = 0,
                                                 double p = 0) {
  return {{.f = scale}, {.i = causal}, {.f = p}, {.i = 0}, {.i = 0}};
}

// Two queries of one head, of which the first sees nothing: every score is minus infinity.
TEST_F(AscendOpsTest, AttentionBackwardIgnoresQueriesThatSeeNothing) {
  open();
  const struct {
    const char* what;
    float q;
    float k;
    float dout;
  } cases[] = {
      {"keys", 1, -kInfinity, 1},
      {"gradient", 1, -3, kInfinity},
      {"gradient NaN", 1, -3, NAN},
      {"query", kInfinity, -3, 1},
      {"query and keys", kInfinity, -kInfinity, 1},
  };
  for (const auto& [what, q_value, k_value, dout_value] : cases) {
    // Keys of minus infinity hide themselves from both queries.
    const bool is_finite = std::isfinite(k_value);
    const keel_tensor q = floats({2, 1, 2}, {q_value, 0.5, is_finite ? 0.0f : 1.0f, 1});
    const keel_tensor k = floats({1, 1, 2}, {k_value, 2});
    const keel_tensor v = floats({1, 1, 2}, {5, 7});
    const keel_tensor out = floats({2, 1, 2}, {0, 0, 5, 7});
    const keel_tensor dout = floats({2, 1, 2}, {dout_value, 1, 1, 3});
    const keel_tensor logsumexp = floats({1, 2}, {-kInfinity, is_finite ? 2.0f : -kInfinity});
    const keel_tensor to[] = {floats({2, 1, 2}, {9, 9, 9, 9}), floats({1, 1, 2}, {9, 9}),
                              floats({1, 1, 2}, {9, 9})};
    const Call call(KEEL_OP_ATTENTION_BACKWARD,
                    {&q, &k, &v, &out, &dout, &logsumexp, nullptr, nullptr, nullptr},
                    {to[0], to[1], to[2]}, attention_attributes());
    ASSERT_TRUE(supports(call)) << what;
    ASSERT_EQ(run(call), KEEL_OK) << t_error;
    EXPECT_EQ(read(to[0]), (std::vector<float>{0, 0, 0, 0})) << what;
    EXPECT_EQ(read(to[1]), (std::vector<float>{0, 0})) << what;
    EXPECT_EQ(read(to[2]), is_finite ? (std::vector<float>{1, 3}) : (std::vector<float>{0, 0}))
        << what;
  }
}

TEST_F(AscendOpsTest, AttentionWithAMaskOrDropoutIsLeftToTheFallback) {
  open();
  const keel_tensor x = floats({2, 1, 1}, {1, 2});
  const keel_tensor rows = floats({1, 2}, {0, 0});
  const keel_tensor mask = floats({1, 1, 2, 2}, {0, 0, 0, 0});
  const auto check = [&](const keel_tensor* given, double p, bool runs) {
    const std::vector<keel_attribute> attributes =
        attention_attributes(/*scale=*/1, /*causal=*/0, p);
    EXPECT_EQ(supports(Call(KEEL_OP_ATTENTION, {&x, &x, &x, nullptr, nullptr, given}, {x, rows},
                            attributes)),
              runs);
    EXPECT_EQ(
        supports(Call(KEEL_OP_ATTENTION_BACKWARD,
                      {&x, &x, &x, &x, &x, &rows, nullptr, nullptr, given}, {x, x, x}, attributes)),
        runs);
  };
  check(nullptr, /*p=*/0, /*runs=*/true);
  check(&mask, /*p=*/0, /*runs=*/false);
  check(nullptr, /*p=*/0.25, /*runs=*/false);
  EXPECT_EQ(settle(), KEEL_OK) << t_error;
}

// The library rounds the factor of a float16 tensor to float16.
TEST_F(AscendOpsTest, ScaleOf16BitsTakesFactorsBeyondFloat16) {
  open();
  const struct {
    keel_dtype dtype;
    std::vector<uint16_t> x;
    double alpha;
    std::vector<uint16_t> want;
  } cases[] = {
      // 2^-14, 1 and -2 of float16 times 1e6: 61.03515625 rounded once, infinity
      {KEEL_FLOAT16, {0x0400, 0x3c00, 0xc000}, 1e6, {0x53a1, 0x7c00, 0xfc00}},
      // 1024 times 1e-8: 1.024e-5
      {KEEL_FLOAT16, {0x6400}, 1e-8, {0x00ac}},
      // 2^-14 of bfloat16 times 1e6: 61.03515625
      {KEEL_BFLOAT16, {0x3880}, 1e6, {0x4274}},
  };
  for (const auto& each : cases) {
    const auto count = static_cast<int64_t>(each.x.size());
    const keel_tensor x = tensor(each.dtype, {count}, each.x);
    ASSERT_EQ(run(KEEL_OP_SCALE, {&x}, x, {{.f = each.alpha}}), KEEL_OK) << t_error;
    EXPECT_EQ(read<uint16_t>(x), each.want) << each.alpha;
    // The general operator leaves such products to the CPU, or computes them as well.
    const Call general(KEEL_OP_ELEMENTWISE, {&x, nullptr, nullptr}, {x},
                       {{.i = KEEL_ELEMENTWISE_FUNCTION_MUL},
                        {.f = 1},
                        {.f = 0},
                        {.f = each.alpha},
                        {.f = 0},
                        {.i = 0},
                        {.i = 0}});
    if (!supports(general)) continue;
    const keel_tensor again = tensor(each.dtype, {count}, each.x);
    const Call same(KEEL_OP_ELEMENTWISE, {&again, nullptr, nullptr}, {again}, general.attributes);
    ASSERT_EQ(run(same), KEEL_OK) << t_error;
    EXPECT_EQ(read<uint16_t>(again), each.want) << each.alpha;
  }
}

// Such casts exist on some chips alone, which a prepared call of the library tells.
TEST_F(AscendOpsTest, CastScaledSaturatesWhereTheChipHasFloat8) {
  for (const bool has_float8 : {true, false}) {
    open(has_float8 ? "memory_mib=64" : "memory_mib=64 float8=0");
    const keel_tensor x = floats({5}, {1, -300, INFINITY, NAN, -0.5});
    const keel_tensor scale = floats({}, {2});
    const keel_tensor y = tensor<uint8_t>(KEEL_FLOAT8_E4M3FN, {5}, {9, 9, 9, 9, 9});
    const keel_tensor amax = floats({}, {9});
    const Call call(KEEL_OP_CAST_SCALED, {&x, &scale}, {y, amax}, {});
    EXPECT_EQ(supports(call), has_float8);
    EXPECT_EQ(run(call), has_float8 ? KEEL_OK : KEEL_UNSUPPORTED) << t_error;
    if (has_float8) {
      EXPECT_EQ(read<uint8_t>(y), (std::vector<uint8_t>{0x40, 0xfe, 0x7e, 0x7f, 0xb8}));
      EXPECT_TRUE(std::isnan(read(amax)[0]));
    }
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    close();
  }
}

// Squares of such logarithms overflow.
TEST_F(AscendOpsTest, CrossEntropyBackwardComparesLargeLogarithms) {
  open();
  const keel_tensor logits = floats({4, 2}, {1.9e19f, 0, 2e19f, 2e19f, -2e19f, -2e19f, 64, NAN});
  const keel_tensor labels = tensor<int32_t>(KEEL_INT32, {4}, {1, 1, 1, -1});
  // The first differs from the row's own by more than 2^-17 of it, the others by less.
  const keel_tensor logsumexp = floats({4}, {2e19f, 2e19f, -2e19f, 64});
  const keel_tensor dlogits = floats({4, 2}, std::vector<float>(8, 9));
  ASSERT_EQ(
      run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {&logits, &labels, &logsumexp}, dlogits, {{.f = 1}}),
      KEEL_OK)
      << t_error;
  EXPECT_EQ(read(dlogits), (std::vector<float>{0, -1, 0.5, -0.5, 0.5, -0.5, 0, 0}));
}

TEST_F(AscendOpsTest, CrossEntropyShardBackwardDemandsOnlyWhatItCalls) {
  open("memory_mib=64", [](const OwnSdk& sdk) {
    for (const char* name : {"aclnnAmax", "aclnnReduceSum", "aclnnGeScalar"}) {
      ASSERT_TRUE(remove_symbol(sdk.path("libopapi.so"), name)) << name;
    }
  });
  const keel_tensor logits = floats({2, 2}, {0, 0, 0, 0});
  const keel_tensor labels = tensor<int32_t>(KEEL_INT32, {2}, {1, -1});
  const keel_tensor logsumexp = floats({2}, {0, 0});
  const keel_tensor dlogits = floats({2, 2}, {9, 9, 9, 9});
  const Call call(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD, {&logits, &labels, &logsumexp}, {dlogits},
                  {{.f = 1}, {.i = 0}});
  ASSERT_TRUE(supports(call));
  ASSERT_EQ(run(call), KEEL_OK) << t_error;
  EXPECT_EQ(read(dlogits), (std::vector<float>{1, 0, 0, 0}));
}

// Sums that the library adds up in any order unless told otherwise.
TEST_F(AscendOpsTest, WithoutAFixedOrderSuchSumsAreNotClaimed) {
  for (const bool fixes_order : {true, false}) {
    open("memory_mib=64", [&](const OwnSdk& sdk) {
      if (fixes_order) return;
      ASSERT_TRUE(remove_symbol(sdk.path("libascendcl.so"), "aclrtCtxSetSysParamOpt"));
    });
    const keel_tensor x = floats({2, 2}, {1, 2, 3, 4});
    const keel_tensor y = floats({2, 2}, {0, 0, 0, 0});
    const keel_tensor row = floats({2}, {1, 1});
    const keel_tensor cube = floats({2, 1, 2}, {1, 2, 3, 4});
    const keel_tensor logsumexp = floats({1, 2}, {0, 0});
    const keel_tensor index = tensor<int32_t>(KEEL_INT32, {2}, {0, 1});
    const keel_tensor indices = tensor<int32_t>(KEEL_INT32, {2, 2}, {0, 1, 1, 0});
    EXPECT_EQ(supports(Call(KEEL_OP_RMS_NORM_BACKWARD, {&x, &x, &row, &row}, {y, row}, {})),
              fixes_order);
    EXPECT_EQ(supports(Call(KEEL_OP_EMBEDDING_BACKWARD, {&x, &index}, {y}, {{.i = 0}})),
              fixes_order);
    EXPECT_EQ(supports(Call(KEEL_OP_SCATTER, {&x, &indices}, {y}, {{.i = 0}, {.i = 1}})),
              fixes_order);
    const Call attention(KEEL_OP_ATTENTION_BACKWARD,
                         {&cube, &cube, &cube, &cube, &cube, &logsumexp, nullptr, nullptr, nullptr},
                         {cube, cube, cube}, attention_attributes());
    EXPECT_EQ(supports(attention), fixes_order);
    EXPECT_EQ(run(attention), fixes_order ? KEEL_OK : KEEL_UNSUPPORTED) << t_error;
    EXPECT_TRUE(supports(Call(KEEL_OP_SUM, {&x}, {row}, {{.i = 0}})));
    EXPECT_TRUE(
        supports(Call(KEEL_OP_LAYER_NORM_BACKWARD, {&x, &x, &row, &row, &row}, {y, row, row}, {})));
    EXPECT_EQ(settle(), KEEL_OK) << t_error;
    close();
  }
}

// The library's output is no larger than the shape to which its operands broadcast each other.
TEST_F(AscendOpsTest, TwoOperandsBroadcastAlongOneAxisFillIt) {
  open();
  keel_tensor row = floats({2, 3}, {1, 2, 4, 0, 0, 0});
  row.strides[0] = 0;
  keel_tensor one = floats({2, 3}, {2, 0, 0, 0, 0, 0});
  one.strides[0] = one.strides[1] = 0;
  const keel_tensor y = floats({2, 3}, std::vector<float>(6, 9));
  const struct {
    int64_t function;
    std::vector<float> want;
  } cases[] = {{KEEL_ELEMENTWISE_FUNCTION_ADD, {3, 4, 6, 3, 4, 6}},
               {KEEL_ELEMENTWISE_FUNCTION_SUB, {-1, 0, 2, -1, 0, 2}},
               {KEEL_ELEMENTWISE_FUNCTION_MUL, {2, 4, 8, 2, 4, 8}},
               {KEEL_ELEMENTWISE_FUNCTION_DIV, {0.5, 1, 2, 0.5, 1, 2}},
               {KEEL_ELEMENTWISE_FUNCTION_MAXIMUM, {2, 2, 4, 2, 2, 4}}};
  for (const auto& [function, want] : cases) {
    const std::vector<keel_attribute> attributes = {{.i = function}, {.f = 1}, {.f = 0}, {.f = 0},
                                                    {.f = 0},        {.i = 0}, {.i = 0}};
    const Call call(KEEL_OP_ELEMENTWISE, {&row, &one, nullptr}, {y}, attributes);
    ASSERT_TRUE(supports(call)) << function;
    ASSERT_EQ(run(call), KEEL_OK) << t_error;
    EXPECT_EQ(read(y), want) << function;
  }
}

TEST_F(AscendOpsTest, OneOperandIsBroadcastToTheOutput) {
  open();
  keel_tensor row = floats({2, 3}, {1, 2, 4, 0, 0, 0});
  row.strides[0] = 0;
  const keel_tensor y = floats({2, 3}, std::vector<float>(6, 9));
  for (const int64_t function : {KEEL_ELEMENTWISE_FUNCTION_NEG, KEEL_ELEMENTWISE_FUNCTION_COPY}) {
    const Call call(KEEL_OP_ELEMENTWISE, {&row, nullptr, nullptr}, {y},
                    {{.i = function}, {.f = 1}, {.f = 0}, {.f = 0}, {.f = 0}, {.i = 0}, {.i = 0}});
    ASSERT_TRUE(supports(call)) << function;
    ASSERT_EQ(run(call), KEEL_OK) << t_error;
    const bool negates = function == KEEL_ELEMENTWISE_FUNCTION_NEG;
    EXPECT_EQ(read(y), negates ? (std::vector<float>{-1, -2, -4, -1, -2, -4})
                               : (std::vector<float>{1, 2, 4, 1, 2, 4}));
  }
}

TEST_F(AscendOpsTest, FunctionsOfOneTensorAreTheLibrarys) {
  open();
  const keel_tensor x = floats({3}, {0, 4, kInfinity});
  const keel_tensor y = floats({3}, {9, 9, 9});
  const struct {
    int64_t function;
    std::vector<float> want;
  } cases[] = {{KEEL_ELEMENTWISE_FUNCTION_SIGMOID, {0.5, 0.98201376f, 1}},
               {KEEL_ELEMENTWISE_FUNCTION_TANH, {0, 0.99932930f, 1}},
               {KEEL_ELEMENTWISE_FUNCTION_RSQRT, {kInfinity, 0.5, 0}}};
  for (const auto& [function, want] : cases) {
    const Call call(KEEL_OP_ELEMENTWISE, {&x, nullptr, nullptr}, {y},
                    {{.i = function}, {.f = 1}, {.f = 0}, {.f = 0}, {.f = 0}, {.i = 0}, {.i = 0}});
    ASSERT_TRUE(supports(call)) << function;
    ASSERT_EQ(run(call), KEEL_OK) << t_error;
    EXPECT_EQ(read(y), want) << function;
  }
}

// The second kernel that makes the mask is refused while the first one still waits to write it.
TEST_F(AscendOpsTest, CausalMaskOutlivesAFailureWhileItIsMade) {
  open("memory_mib=64 faults=stall:op@1=50,refuse:op@2");
  const keel_tensor x = floats({2, 1, 1}, {1, 2});
  const keel_tensor out = floats({2, 1, 1}, {9, 9});
  const keel_tensor logsumexp = floats({1, 2}, {9, 9});
  const Call attention(KEEL_OP_ATTENTION, {&x, &x, &x, nullptr, nullptr, nullptr}, {out, logsumexp},
                       attention_attributes(/*scale=*/0, /*causal=*/1));
  EXPECT_EQ(run(attention), KEEL_INTERNAL);
  EXPECT_EQ(settle(), KEEL_OK) << t_error;
  ASSERT_EQ(run(attention), KEEL_OK) << t_error;
  EXPECT_EQ(read(out), (std::vector<float>{1, 1.5}));
}

}  // namespace
}  // namespace keel::testing
