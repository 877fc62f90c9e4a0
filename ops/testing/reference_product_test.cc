// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

// Each product of the batch equals matmul's.
TEST(BatchedMatmul, IsOneMatmulAfterTheOther) {
  const int64_t batch = 3, m = 4, n = 5, k = 2;
  for (int transposes = 0; transposes < 4; ++transposes) {
    const bool ta = (transposes & 2) != 0;
    const bool tb = (transposes & 1) != 0;
    const std::vector<keel_attribute> attributes = {int_attribute(ta), int_attribute(tb),
                                                    float_attribute(-0.5), float_attribute(2)};
    std::vector<keel_attribute> of_one = attributes;
    of_one.push_back(int_attribute(0));  // no activation
    using Shape = std::vector<int64_t>;
    const Shape a_shape = ta ? Shape{k, m} : Shape{m, k};
    const Shape b_shape = tb ? Shape{n, k} : Shape{k, n};
    Host a({batch, a_shape[0], a_shape[1]}, random_floats(batch * m * k, 0));
    Host b({batch, b_shape[0], b_shape[1]}, random_floats(batch * k * n, 1));
    Host c({batch, m, n}, random_floats(batch * m * n, 2));
    const std::vector<double> got =
        run(KEEL_OP_BATCHED_MATMUL, {&a.tensor, &b.tensor}, {&c.tensor}, attributes)
            .outputs[0]
            .values;
    const auto part = [](const Host& all, int64_t each, int64_t count) {
      return std::vector<float>(all.floats.begin() + each * count,
                                all.floats.begin() + (each + 1) * count);
    };
    for (int64_t each = 0; each < batch; ++each) {
      Host one_a(a_shape, part(a, each, m * k));
      Host one_b(b_shape, part(b, each, k * n));
      Host one_c({m, n}, part(c, each, m * n));
      const std::vector<double> want =
          run(KEEL_OP_MATMUL, {&one_a.tensor, &one_b.tensor, nullptr}, {&one_c.tensor}, of_one)
              .outputs[0]
              .values;
      expect_near({got.begin() + each * m * n, got.begin() + (each + 1) * m * n}, want, 1e-12);
    }
  }
}

TEST(BatchedMatmul, OfOneMatrixForAll) {
  Host a({2, 1, 2}, std::vector<float>{1, 2, 3, 4});
  Host b({2, 2, 1}, std::vector<float>{10, 100, 0, 0});
  b.tensor.strides[0] = 0;
  Host c({2, 1, 1}, std::vector<float>(2));
  EXPECT_EQ(run(KEEL_OP_BATCHED_MATMUL, {&a.tensor, &b.tensor}, {&c.tensor},
                {int_attribute(0), int_attribute(0), float_attribute(1), float_attribute(0)})
                .outputs[0]
                .values,
            (std::vector<double>{210, 430}));
}

}  // namespace
}  // namespace keel::ops
