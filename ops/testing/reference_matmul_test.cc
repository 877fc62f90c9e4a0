// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

// Content of the padding beyond k and n, which must not be read.
constexpr float kBeyond = std::numeric_limits<float>::quiet_NaN();

TEST(PackedMatmul, IsMatmulByWhatWasPacked) {
  const int64_t m = 4, n = 65, k = 3;
  const std::vector<float> weights = random_floats(static_cast<size_t>(k * n), 1);
  Host bias({n}, random_floats(static_cast<size_t>(n), 2));
  for (int transposes = 0; transposes < 4; ++transposes) {
    const bool ta = (transposes & 2) != 0;
    const bool tb = (transposes & 1) != 0;
    using Shape = std::vector<int64_t>;
    Host a(ta ? Shape{k, m} : Shape{m, k}, random_floats(static_cast<size_t>(m * k), 0));
    Host b(tb ? Shape{n, k} : Shape{k, n}, weights);
    Host packed({64, 128}, std::vector<float>(64 * 128, kBeyond));
    const std::vector<double> order =
        run(KEEL_OP_PACK_WEIGHTS, {&b.tensor}, {&packed.tensor}, {int_attribute(tb)})
            .outputs[0]
            .values;
    for (int64_t l = 0; l < k; ++l) {
      for (int64_t j = 0; j < n; ++j) {
        packed.floats[static_cast<size_t>(l * 128 + j)] =
            static_cast<float>(order[static_cast<size_t>(l * 128 + j)]);
      }
    }
    Host c({m, n}, random_floats(static_cast<size_t>(m * n), 3));
    const auto [alpha, beta] = std::pair(float_attribute(-0.5), float_attribute(2));
    const std::vector<double> want =
        run(KEEL_OP_MATMUL, {&a.tensor, &b.tensor, &bias.tensor}, {&c.tensor},
            {int_attribute(ta), int_attribute(tb), alpha, beta, int_attribute(3)})
            .outputs[0]
            .values;
    const std::vector<double> got =
        run(KEEL_OP_PACKED_MATMUL, {&a.tensor, &packed.tensor, &bias.tensor}, {&c.tensor},
            {int_attribute(ta), alpha, beta, int_attribute(3)})
            .outputs[0]
            .values;
    expect_near(got, want, 0);
  }
}

TEST(PackedMatmul, RefusesWeightsOfOtherExtents) {
  Host a({4, 65}, std::vector<float>(4 * 65));
  Host b({65, 64}, std::vector<float>(65 * 64));
  Host packed({128, 64}, std::vector<float>(128 * 64));
  Host fewer({64, 64}, std::vector<float>(64 * 64));
  Host c({4, 64}, std::vector<float>(4 * 64));
  Host wider({4, 65}, std::vector<float>(4 * 65));
  const std::vector<keel_attribute> plain = {int_attribute(0), float_attribute(1),
                                             float_attribute(0), int_attribute(0)};
  const auto product = [&](const keel_tensor& weights, const keel_tensor& to) {
    return refusal(KEEL_OP_PACKED_MATMUL, {&a.tensor, &weights, nullptr}, {&to}, plain);
  };
  EXPECT_EQ(product(fewer.tensor, c.tensor),
            "packed_matmul: input packed: its shape is [64,64], not [128,64]");
  EXPECT_EQ(product(b.tensor, c.tensor),
            "packed_matmul: input packed: its shape is [65,64], not [128,64]");
  EXPECT_EQ(product(packed.tensor, wider.tensor),
            "packed_matmul: input packed: its shape is [128,64], not [128,128]");
  EXPECT_EQ(refusal(KEEL_OP_PACK_WEIGHTS, {&b.tensor}, {&fewer.tensor}, {int_attribute(0)}),
            "pack_weights: output packed: its shape is [64,64], not [128,64]");
  packed.tensor.strides[0] = 65;
  EXPECT_EQ(product(packed.tensor, c.tensor),
            "packed_matmul: input packed: packed weights are dense");
}

}  // namespace
}  // namespace keel::ops
