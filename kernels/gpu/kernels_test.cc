// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace keel::simt {
namespace {

// Functions, dtypes, strides and axes are values: a new one needs no kernel. Sums and products of
// dense tensors of one dtype have kernels of their own, which the operator add launches too.
TEST(SimtKernels, ElementwiseAndReduceHaveAtMostTwelve) {
#define KEEL_NAME(name) #name,
#define KEEL_NAMES(family, kernels) kernels(KEEL_NAME)
  constexpr std::string_view kNames[] = {KEEL_SIMT_FAMILIES(KEEL_NAMES)};
#undef KEEL_NAMES
#undef KEEL_NAME
  const auto count = std::ranges::count_if(kNames, [](std::string_view name) {
    return std::ranges::any_of(std::initializer_list<std::string_view>{"function_", "elementwise_",
                                                                       "reduce_", "add_", "mul_"},
                               [&](std::string_view of) { return name.starts_with(of); });
  });
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 12);
}

}  // namespace
}  // namespace keel::simt
