// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: gradient norms and clipping.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

// ---- sum of squares

constexpr InputSpec kSumOfSquaresInputs[] = {{"x", "any"}, {"before", "[]", true}};
constexpr OutputSpec kSumOfSquaresOutputs[] = {{"total", "[]", 0b10}, {"found", "[]"}};
// The scale is the total itself, for any number of terms: 10^8 terms summed one by one in float32
// would be far off.
constexpr Tolerance kSumOfSquaresTolerance = {kFlush, 0x1p-23, 0x1p-20, kErrorFloat32};
constexpr DtypeCombination kSumOfSquaresDtypes[] = {
    {{f32, f32}, {f32, i32}, false, kSumOfSquaresTolerance},
    {{bf16, f32}, {f32, i32}, true, kSumOfSquaresTolerance},
    {{f16, f32}, {f32, i32}, true, kSumOfSquaresTolerance},
};

// ---- clip

constexpr InputSpec kClipInputs[] = {{"g", "any"}, {"sum_of_squares", "[]"}};
constexpr OutputSpec kClipOutputs[] = {{"g_out", "as g", 0b1}};
constexpr AttributeSpec kClipAttributes[] = {
    {"max_norm", AttributeKind::kFloat, 1, 0, 1e30, "the largest norm that clip leaves unchanged"}};
constexpr DtypeCombination kClipDtypes[] = {
    {{f32, f32}, {f32}, false, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat32}},
    {{bf16, f32}, {bf16}, true, {kFlush, 0x1p-22, 0x1p-20, kErrorBFloat16}},
    {{f16, f32}, {f16}, true, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat16}},
};

}  // namespace

constinit const Schema kSumOfSquares = {
    KEEL_OP_SUM_OF_SQUARES,
    "sum_of_squares",
    "total = before + sum of x^2, in an order that is fixed for a shape; found = 1 if an element "
    "of x, or before, is NaN or infinite, else 0. An absent before counts as 0; before chains "
    "calls, so that many tensors make one norm. Squares beyond float32's range give an infinite "
    "total; the next call, with this total as before, sets found",
    kSumOfSquaresInputs,
    kSumOfSquaresOutputs,
    {},
    kSumOfSquaresDtypes,
    f32,
    check_sum_of_squares,
    sum_of_squares_cases,
    sum_of_squares_reference};
constinit const Schema kClip = {
    KEEL_OP_CLIP,
    "clip",
    "g_out = g * min(1, max_norm / (sqrt(sum_of_squares) + 1e-6)). If sum_of_squares is NaN, every "
    "element becomes NaN; if sum_of_squares is infinite, the factor is 0: finite elements become "
    "0, all others NaN",
    kClipInputs,
    kClipOutputs,
    kClipAttributes,
    kClipDtypes,
    kNone,
    check_clip,
    clip_cases,
    clip_reference};

}  // namespace keel::ops
