// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/conversions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <keel/plugin_kit.hpp>
#include <set>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/reference.h"

namespace keel::ops {
namespace {

constexpr int64_t k2To53 = int64_t{1} << 53;

// The value of |from| as |to| by cast's reference. Element |from| lies in host memory.
template <typename From>
double cast(From value, keel_dtype from, keel_dtype to) {
  uint64_t result = 0;
  const keel_tensor x = kit::make_tensor(&value, from, {1});
  const keel_tensor y = kit::make_tensor(&result, to, {1});
  const keel_tensor* inputs[] = {&x};
  const keel_tensor* outputs[] = {&y};
  keel_op_call call = {};
  call.header = kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL);
  call.op = KEEL_OP_CAST;
  call.input_count = call.output_count = 1;
  call.inputs = inputs;
  call.outputs = outputs;
  ReferenceResult reference;
  EXPECT_EQ(run_reference(call, &reference), KEEL_OK);
  return reference.outputs[0].values[0];
}

TEST(Conversions, IntegersWrap) {
  EXPECT_EQ(cast(int32_t{-1}, KEEL_INT32, KEEL_UINT8), 255);
  EXPECT_EQ(cast(int32_t{200}, KEEL_INT32, KEEL_INT8), -56);
  EXPECT_EQ(cast(uint8_t{200}, KEEL_UINT8, KEEL_INT8), -56);
  EXPECT_EQ(cast(int8_t{-56}, KEEL_INT8, KEEL_UINT8), 200);
  EXPECT_EQ(cast(int64_t{0x1'0000'0005}, KEEL_INT64, KEEL_INT32), 5);
  // float64 would lose the last bit.
  EXPECT_EQ(cast(k2To53 + 1, KEEL_INT64, KEEL_INT16), 1);
}

TEST(Conversions, FloatsAreTruncatedAndWrapWithinInt32) {
  EXPECT_EQ(cast(2.9F, KEEL_FLOAT32, KEEL_INT64), 2);
  EXPECT_EQ(cast(-2.9F, KEEL_FLOAT32, KEEL_INT8), -2);
  EXPECT_EQ(cast(-1.5F, KEEL_FLOAT32, KEEL_UINT8), 255);
  EXPECT_EQ(cast(300.75, KEEL_FLOAT64, KEEL_UINT8), 44);
  EXPECT_EQ(cast(-0x1p63, KEEL_FLOAT64, KEEL_INT64), -0x1p63);
}

TEST(Conversions, RoundOnceButForIntegersToSixteenBits) {
  EXPECT_EQ(cast(1 + 0x1p-8 + 0x1p-40, KEEL_FLOAT64, KEEL_BFLOAT16), 1 + 0x1p-7);
  EXPECT_EQ(cast(1 + 0x1p-11 + 0x1p-40, KEEL_FLOAT64, KEEL_FLOAT16), 1 + 0x1p-10);
  EXPECT_EQ(cast(1e300, KEEL_FLOAT64, KEEL_FLOAT32), HUGE_VAL);
  EXPECT_EQ(cast(-1e300, KEEL_FLOAT64, KEEL_FLOAT16), -HUGE_VAL);
  EXPECT_EQ(cast(k2To53 + 1, KEEL_INT64, KEEL_FLOAT64), 0x1p53);
  EXPECT_EQ(cast(k2To53 + 3, KEEL_INT64, KEEL_FLOAT64), 0x1p53 + 4);
  EXPECT_EQ(cast((int64_t{1} << 24) + 1, KEEL_INT64, KEEL_FLOAT32), 0x1p24);
  // By way of float64 this would be a tie.
  EXPECT_EQ(cast(k2To53 + (int64_t{1} << 29) + 1, KEEL_INT64, KEEL_FLOAT32), 0x1p53 + 0x1p30);
  // By way of float32 this is a tie.
  EXPECT_EQ(cast((1 << 24) + (1 << 16) + 1, KEEL_INT32, KEEL_BFLOAT16), 0x1p24);
  EXPECT_TRUE(std::isnan(cast(NAN, KEEL_FLOAT32, KEEL_FLOAT64)));
}

// The values of a tensor whose elements convert from |from| to |to|.
std::vector<double> values_of(keel_dtype from, keel_dtype to) {
  const Case one =
      make_case(KEEL_OP_GELU, 0, "test", {dense(from, {512}, Distribution::kConversions, to)},
                {dense(from, {512}, Distribution::kNaN)});
  const CaseData data(one, /*seed=*/1);
  return read_tensor(*data.call().inputs[0]);
}

TEST(Conversions, ValuesHoldTheEndsOfBothTypes) {
  bool has_nan = false;
  std::set<double> floats;
  for (const double value : values_of(KEEL_FLOAT64, KEEL_FLOAT32)) {
    has_nan |= std::isnan(value);
    if (!std::isnan(value)) floats.insert(value);
  }
  EXPECT_TRUE(has_nan && floats.contains(HUGE_VAL) && floats.contains(0x1p24 + 1));
  for (const keel_dtype from : {KEEL_FLOAT64, KEEL_FLOAT32, KEEL_FLOAT16}) {
    std::set<double> to_bytes;
    for (const double value : values_of(from, KEEL_UINT8)) {
      EXPECT_TRUE(value >= -0x1p31 && value < 0x1p31) << value;
      to_bytes.insert(value);
    }
    EXPECT_TRUE(to_bytes.contains(-1) && to_bytes.contains(256));
  }
  const std::vector<double> of_integers = values_of(KEEL_INT64, KEEL_INT32);
  const std::set<double> integers(of_integers.begin(), of_integers.end());
  EXPECT_TRUE(integers.contains(-0x1p63) && integers.contains(0x1p31) && integers.contains(-1));
}

}  // namespace
}  // namespace keel::ops
