// SPDX-License-Identifier: Apache-2.0
// Figures of two tensors, against values computed by hand.
#include "tensorfile/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <keel/float_types.hpp>
#include <limits>

#include "tensorfile/testing/tensor_folder.h"

namespace keel::tensorfile {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class DifferenceTest : public ::testing::Test {
 protected:
  template <typename A, typename B>
  Difference of(const std::string& dtype_a, const std::vector<A>& a, const std::string& dtype_b,
                const std::vector<B>& b, std::vector<int64_t> shape = {-1}) {
    folder_.add_as(dtype_a, "x", a, shape);
    const SafetensorsFile file_a(folder_.write("a"));
    folder_.add_as(dtype_b, "x", b, shape);
    const SafetensorsFile file_b(folder_.write("b"));
    const auto found = difference(file_a, *file_a.find("x"), file_b, *file_b.find("x"));
    EXPECT_TRUE(found.has_value()) << dtype_a << " and " << dtype_b << " are decoded";
    return found.value_or(Difference());
  }
  Difference of(const std::vector<float>& a, const std::vector<float>& b,
                std::vector<int64_t> shape = {-1}) {
    return of("F32", a, "F32", b, std::move(shape));
  }

  testing::TensorFolder folder_;
};

TEST_F(DifferenceTest, OfEqualBitsIsNone) {
  const Difference none = of({1, -2, kNaN, kInfinity}, {1, -2, kNaN, kInfinity});
  EXPECT_TRUE(none.equal_bits);
  EXPECT_EQ(none.relative_norm, 0);
  EXPECT_EQ(none.cosine, 1);
  EXPECT_FALSE(none.largest_absolute_at.has_value());
  EXPECT_TRUE(of({}, {}).equal_bits);
  EXPECT_TRUE(of({}, {}, {4, 0, 3}).equal_bits);
}

TEST_F(DifferenceTest, IsMeasuredInEachWay) {
  const Difference some = of({3, 0, 4, 0.5F, 0, 0}, {3, 0, 4.5F, 0.25F, 0, 0}, {2, 3});
  EXPECT_FALSE(some.equal_bits);
  EXPECT_EQ(some.largest_absolute, 0.5);
  EXPECT_EQ(some.largest_absolute_at->index, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(some.largest_absolute_at->a, 4);
  EXPECT_EQ(some.largest_absolute_at->b, 4.5);
  EXPECT_EQ(some.largest_relative, 0.5);
  EXPECT_EQ(some.largest_relative_at->index, (std::vector<int64_t>{1, 0}));
  EXPECT_DOUBLE_EQ(some.relative_norm, std::sqrt(0.3125) / std::sqrt(25.25));
  EXPECT_DOUBLE_EQ(some.cosine, (9 + 18 + 0.125) / std::sqrt(25.25 * (9 + 20.25 + 0.0625)));
  EXPECT_EQ(some.largest_ulps, uint64_t{1} << 23) << "half of 0.5 is a whole exponent away";
  EXPECT_EQ(some.unlike, 0U);
}

TEST_F(DifferenceTest, FromZeroIsInfinite) {
  Difference away = of({0, 0}, {0, 1e-30F});
  EXPECT_EQ(away.relative_norm, kInfinity);
  EXPECT_EQ(away.cosine, 0);
  EXPECT_EQ(away.largest_relative, 1);
  away = of({0, 1e-30F}, {0, 0});
  EXPECT_EQ(away.relative_norm, 1);
  EXPECT_DOUBLE_EQ(of({1, 2}, {-1, -2}).cosine, -1);
  const Difference signs = of({0.0F, 1}, {-0.0F, 1});
  EXPECT_FALSE(signs.equal_bits);
  EXPECT_EQ(signs.relative_norm, 0);
  EXPECT_EQ(signs.largest_ulps, 0U);
}

TEST_F(DifferenceTest, CountsWhatOnlyOneHasOfNanAndInfinities) {
  const Difference unlike = of({kNaN, 1, kNaN, kInfinity, kInfinity, 2, kInfinity},
                               {kNaN, 1, 5, kInfinity, -kInfinity, kNaN, kNaN});
  EXPECT_EQ(unlike.unlike, 4U);
  EXPECT_EQ(unlike.first_unlike->index, std::vector<int64_t>{2});
  EXPECT_TRUE(std::isnan(unlike.first_unlike->a));
  EXPECT_EQ(unlike.first_unlike->b, 5);
  EXPECT_EQ(unlike.relative_norm, 0) << "of the finite ones";
  // Any NaN equals any other NaN.
  const Difference payload = of<uint32_t, uint32_t>("F32", {0x7fc00000}, "F32", {0xffc00001});
  EXPECT_FALSE(payload.equal_bits);
  EXPECT_EQ(payload.unlike, 0U);
}

TEST_F(DifferenceTest, OfEveryDtype) {
  // 1 and the next value.
  EXPECT_EQ((of<uint16_t, uint16_t>("BF16", {0x3f80}, "BF16", {0x3f81}).largest_absolute),
            std::ldexp(1.0, -7));
  EXPECT_EQ((of<uint16_t, uint16_t>("BF16", {0x3f80}, "BF16", {0x3f81}).largest_ulps), 1U);
  EXPECT_EQ((of<uint16_t, uint16_t>("F16", {0x3c00}, "F16", {0x3c01}).largest_absolute),
            std::ldexp(1.0, -10));
  EXPECT_EQ((of<uint8_t, uint8_t>("F8_E4M3", {0x38}, "F8_E4M3", {0x39}).largest_absolute), 0.125);
  EXPECT_EQ((of<uint8_t, uint8_t>("F8_E4M3", {0x38}, "F8_E4M3", {0x7f}).unlike), 1U);
  EXPECT_EQ((of<uint8_t, uint8_t>("F8_E5M2", {0x3c}, "F8_E5M2", {0x3d}).largest_absolute), 0.25);
  EXPECT_EQ((of<uint8_t, uint8_t>("F8_E5M2", {0x01}, "F8_E5M2", {0x81}).largest_ulps), 2U);
  EXPECT_EQ((of<double, double>("F64", {1}, "F64", {std::nextafter(1.0, 2.0)}).largest_ulps), 1U);
  EXPECT_EQ((of<int8_t, int8_t>("I8", {-128}, "I8", {127}).largest_absolute), 255);
  EXPECT_EQ((of<int16_t, int16_t>("I16", {-3}, "I16", {4}).largest_absolute), 7);
  EXPECT_EQ((of<int32_t, int32_t>("I32", {INT32_MIN}, "I32", {INT32_MAX}).largest_absolute),
            4294967295.0);
  EXPECT_EQ((of<int32_t, int32_t>("I32", {1}, "I32", {2}).largest_ulps), std::nullopt);
  EXPECT_EQ((of<uint8_t, uint8_t>("U8", {0}, "U8", {255}).largest_absolute), 255);
  EXPECT_EQ((of<uint8_t, uint8_t>("BOOL", {0, 1}, "BOOL", {1, 1}).largest_absolute), 1);
  EXPECT_EQ((of<uint16_t, uint16_t>("U16", {0}, "U16", {65535}).largest_absolute), 65535);
  EXPECT_EQ((of<uint32_t, uint32_t>("U32", {0}, "U32", {UINT32_MAX}).largest_absolute),
            4294967295.0);
}

// Values that a double does not distinguish, or cannot square.
TEST_F(DifferenceTest, IsMeasuredBeyondDouble) {
  constexpr int64_t kLarge = (int64_t{1} << 62) + 1;
  EXPECT_EQ((of<int64_t, int64_t>("I64", {kLarge}, "I64", {kLarge + 1}).largest_absolute), 1);
  EXPECT_EQ((of<uint64_t, uint64_t>("U64", {UINT64_MAX}, "U64", {UINT64_MAX - 1}).largest_absolute),
            1);
  Difference wide = of<double, double>("F64", {1e300, 1e300}, "F64", {1e300, 1.5e300});
  EXPECT_NEAR(wide.relative_norm, 0.5 / std::sqrt(2.0), 1e-12);
  wide = of<double, double>("F64", {1e-310, 0}, "F64", {1e-310, 1e-310});
  EXPECT_NEAR(wide.relative_norm, 1, 1e-12);
  EXPECT_NEAR(wide.cosine, 1 / std::sqrt(2.0), 1e-12);
}

TEST_F(DifferenceTest, OfTwoDtypesIsThatOfTheValues) {
  const Difference mixed = of<float, uint16_t>("F32", {1, 1.00390625F}, "BF16", {0x3f80, 0x3f80});
  EXPECT_FALSE(mixed.equal_bits);
  EXPECT_EQ(mixed.largest_absolute, 0.00390625);
  EXPECT_EQ(mixed.largest_ulps, std::nullopt);
  EXPECT_EQ((of<float, double>("F32", {1, 2}, "F64", {1, 2}).relative_norm), 0);
  EXPECT_EQ((of<float, double>("F32", {}, "F64", {}).relative_norm), 0);
}

// The tensors span more than one piece.
TEST_F(DifferenceTest, IsFoundInLargeTensors) {
  std::vector<float> a(300'000, 0.25F);
  std::vector<float> b = a;
  b[131'072 + 17] = 0.75F;
  a[299'999] = kNaN;
  const Difference far = of(a, b, {300, 1000});
  EXPECT_EQ(far.largest_absolute_at->index, (std::vector<int64_t>{131, 89}));
  EXPECT_EQ(far.unlike, 1U);
  EXPECT_EQ(far.first_unlike->index, (std::vector<int64_t>{299, 999}));
  EXPECT_NEAR(far.relative_norm, 0.5 / std::sqrt(299'999 * 0.0625), 1e-9);
}

}  // namespace
}  // namespace keel::tensorfile
