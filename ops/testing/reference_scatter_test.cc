// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <keel/plugin_kit.hpp>
#include <vector>

#include "ops/testing/case_data.h"
#include "ops/testing/reference.h"

namespace keel::ops {
namespace {

// y of |call|, a scatter with attribute add, rounded to its dtype after each term.
std::vector<double> sums_rounded_each_time(const keel_op_call& call) {
  const keel_tensor& x = *call.inputs[0];
  const keel_tensor& y = *call.outputs[0];
  const auto axis = static_cast<uint32_t>(kit::attributes<keel_op_scatter_attributes>(call).axis);
  const std::vector<double> terms = read_tensor(x);
  const std::vector<double> index = read_tensor(*call.inputs[1]);
  std::vector<double> sums = read_tensor(y);
  for (size_t i = 0; i < terms.size(); ++i) {
    if (index[i] < 0 || index[i] >= static_cast<double>(y.shape[axis])) continue;
    // The coordinates of element |i| of x, from the last axis on, and the element of y there.
    auto left = static_cast<int64_t>(i);
    int64_t stride = 1;
    int64_t at = 0;
    for (uint32_t a = x.rank; a-- > 0;) {
      at += (a == axis ? static_cast<int64_t>(index[i]) : left % x.shape[a]) * stride;
      left /= x.shape[a];
      stride *= y.shape[a];
    }
    double& sum = sums[static_cast<size_t>(at)];
    sum = round_to_dtype(sum + terms[i], y.dtype);
  }
  return sums;
}

TEST(ScatterReference, SumsMayBeRoundedAfterEachTerm) {
  size_t beyond_one_rounding = 0;
  for (const Case& each : all_cases()) {
    if (each.op != KEEL_OP_SCATTER) continue;
    SCOPED_TRACE(each.id);
    CaseData data(each, /*seed=*/42);
    const keel_op_call& call = data.call();
    const keel_dtype dtype = call.outputs[0]->dtype;
    if (kit::attributes<keel_op_scatter_attributes>(call).add == 0) continue;
    if (dtype != KEEL_BFLOAT16 && dtype != KEEL_FLOAT16) continue;
    ReferenceResult result;
    ASSERT_EQ(run_reference(call, &result), KEEL_OK);
    const ReferenceOutput& wanted = result.outputs[0];
    const Tolerance tolerance =
        tolerance_of(call, find_schema(each.op)->dtypes[each.combination].tolerance);
    const std::vector<double> got = sums_rounded_each_time(call);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(element_matches(tolerance, dtype, got[i], wanted.values[i], wanted.magnitudes[i]))
          << "element " << i;
    }
    const double error = normalised_error(got, wanted.values, tolerance.absolute);
    EXPECT_LE(error, tolerance.nmse * wanted.roundings);
    beyond_one_rounding += error > tolerance.nmse;
  }
  EXPECT_GT(beyond_one_rounding, 0);
}

}  // namespace
}  // namespace keel::ops
