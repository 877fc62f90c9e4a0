// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: casts to and from 8-bit floats with a scale.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr keel_dtype e4m3 = KEEL_FLOAT8_E4M3FN;
constexpr keel_dtype e5m2 = KEEL_FLOAT8_E5M2;

constexpr InputSpec kCastScaledInputs[] = {{"x", "any"}, {"scale", "[]"}};
constexpr OutputSpec kCastScaledOutputs[] = {{"y", "as x"}, {"amax", "[]"}};

// Each element is correctly rounded. The output as a whole has no further bound: numbers below an
// 8-bit type's range all become zero.
constexpr DtypeCombination scaled(keel_dtype from, keel_dtype to, bool optional) {
  return {{from, f32}, {to, f32}, optional, rounded_once(kInfinity)};
}
constexpr DtypeCombination kCastScaledDtypes[] = {
    scaled(f32, e4m3, false), scaled(f32, e5m2, false), scaled(e4m3, f32, false),
    scaled(e5m2, f32, false), scaled(bf16, e4m3, true), scaled(bf16, e5m2, true),
    scaled(f16, e4m3, true),  scaled(f16, e5m2, true),  scaled(e4m3, bf16, true),
    scaled(e5m2, bf16, true), scaled(e4m3, f16, true),  scaled(e5m2, f16, true),
};

}  // namespace

constinit const Schema kCastScaled = {
    KEEL_OP_CAST_SCALED,
    "cast_scaled",
    "y = scale * x in another dtype; amax = the largest |x|, 0 for an empty x, NaN if an element "
    "is NaN. The product is rounded to float32 and then to y's dtype, to nearest, ties to even. "
    "Conversion to an 8-bit type saturates: values beyond the largest finite number, infinity "
    "included, become the largest finite number. For other types, overflow gives infinity. The "
    "kernel reads scale in stream order, so the caller can use the scale of an earlier step; to "
    "convert back, the caller passes the reciprocal of the scale",
    kCastScaledInputs,
    kCastScaledOutputs,
    {},
    kCastScaledDtypes,
    kNone,
    check_cast_scaled,
    cast_scaled_cases,
    cast_scaled_reference};

}  // namespace keel::ops
