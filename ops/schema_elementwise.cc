// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: elementwise operators.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

// ---- fill

constexpr OutputSpec kFillOutputs[] = {{"y", "any"}};
constexpr AttributeSpec kFillAttributes[] = {
    {"value", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "for a float y, converted to float32 and then to y's dtype; for an integer y, truncated, and "
     "must fit y's dtype"}};
constexpr DtypeCombination kFillDtypes[] = {
    {{}, {f32}, false, rounded_once(kErrorExact)},
    {{}, {f16}, true, rounded_once(kErrorFloat16)},
    {{}, {bf16}, true, rounded_once(kErrorBFloat16)},
    {{}, {i32}, false, rounded_once(0)},
    {{}, {KEEL_INT64}, true, rounded_once(0)},
    {{}, {KEEL_UINT8}, true, rounded_once(0)},
};

// ---- cast

constexpr OutputSpec kCastOutputs[] = {{"y", "as x"}};
constexpr DtypeCombination kCastDtypes[] = {
    {{f32}, {bf16}, false, rounded_once(kErrorBFloat16)},
    {{bf16}, {f32}, false, rounded_once(kErrorExact)},
    {{f32}, {f16}, false, rounded_once(kErrorFloat16)},
    {{f16}, {f32}, false, rounded_once(kErrorExact)},
    {{f16}, {bf16}, true, rounded_once(kErrorBFloat16)},
    {{bf16}, {f16}, true, rounded_once(kErrorFloat16)},
    {{f32}, {i32}, true, rounded_once(kInfinity)},
    {{i32}, {f32}, true, rounded_once(kErrorExact)},
};

// ---- add, scale, axpy

constexpr InputSpec kAddInputs[] = {{"a", "any"}, {"b", "as a"}};
constexpr OutputSpec kAddOutputs[] = {{"c", "as a", 0b11}};
constexpr DtypeCombination kAddDtypes[] = {
    {{f32, f32}, {f32}, false, rounded_once(kErrorExact)},
    {{f16, f16}, {f16}, true, rounded_once(kErrorFloat16)},
    {{bf16, bf16}, {bf16}, true, rounded_once(kErrorBFloat16)},
};

constexpr DtypeCombination kScaleDtypes[] = {
    {{f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
};

constexpr InputSpec kAxpyInputs[] = {{"x", "any"}, {"y", "as x"}};
constexpr OutputSpec kAxpyOutputs[] = {{"out", "as x", 0b10}};
constexpr DtypeCombination kAxpyDtypes[] = {
    {{f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, f32}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- adamw

constexpr InputSpec kAdamwInputs[] = {{"p", "any"}, {"g", "as p"}, {"m", "as p"}, {"v", "as p"}};
constexpr OutputSpec kAdamwOutputs[] = {
    {"p_out", "as p", 0b0001}, {"m_out", "as p", 0b0100}, {"v_out", "as p", 0b1000}};
constexpr AttributeSpec kAdamwAttributes[] = {
    {"lr", AttributeKind::kFloat, 1e-3, 0, 1e30, "learning rate"},
    {"beta1", AttributeKind::kFloat, 0.9, 0, 1 - 0x1p-53, "decay of m"},
    {"beta2", AttributeKind::kFloat, 0.999, 0, 1 - 0x1p-53, "decay of v"},
    {"eps", AttributeKind::kFloat, 1e-8, 0, 1e30, "added to the square root of v"},
    {"weight_decay", AttributeKind::kFloat, 0.01, 0, 1e30, "decoupled from the gradient"},
    {"step", AttributeKind::kInt, 1, 1, 0x1p53, "t, counted from 1"},
    {"grad_scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "multiplies g first"}};
constexpr DtypeCombination kAdamwDtypes[] = {
    {{f32, f32, f32, f32}, {f32, f32, f32}, false, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat32}},
    {{f32, bf16, f32, f32}, {f32, f32, f32}, true, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat32}},
    {{f32, f16, f32, f32}, {f32, f32, f32}, true, {kFlush, 0x1p-22, 0x1p-20, kErrorFloat32}},
};

}  // namespace

constinit const Schema kFill = {KEEL_OP_FILL, "fill",          "y = value",   {},
                                kFillOutputs, kFillAttributes, kFillDtypes,   kNone,
                                check_fill,   fill_cases,      fill_reference};
constinit const Schema kCast = {
    KEEL_OP_CAST,
    "cast",
    "y = x in another dtype, rounded to nearest, ties to even; overflow of a float type gives "
    "infinity. Conversion to int32 truncates; the result is unspecified for NaN and for values "
    "beyond int32's range",
    kUnaryInputs,
    kCastOutputs,
    {},
    kCastDtypes,
    kNone,
    check_elementwise,
    cast_cases,
    cast_reference};
constinit const Schema kAdd = {
    KEEL_OP_ADD, "add",        "c = a + b, computed in float32 and rounded once",
    kAddInputs,  kAddOutputs,  {},
    kAddDtypes,  kNone,        check_elementwise,
    add_cases,   add_reference};
constinit const Schema kScale = {
    KEEL_OP_SCALE, "scale", "y = alpha * x",   kUnaryInputs, kUnaryInPlaceOutputs, kAlphaAttributes,
    kScaleDtypes,  kNone,   check_elementwise, scale_cases,  scale_reference};
constinit const Schema kAxpy = {
    KEEL_OP_AXPY, "axpy", "out = alpha * x + y", kAxpyInputs, kAxpyOutputs,  kAlphaAttributes,
    kAxpyDtypes,  kNone,  check_elementwise,     axpy_cases,  axpy_reference};
constinit const Schema kAdamw = {
    KEEL_OP_ADAMW,
    "adamw",
    "g' = grad_scale * g; m_out = beta1 m + (1-beta1) g'; v_out = beta2 v + (1-beta2) g'^2; p_out "
    "= p - lr (m_out/(1-beta1^t) / (sqrt(v_out/(1-beta2^t)) + eps) + weight_decay p). Kernels "
    "compute 1-beta and 1-beta^t in float64 and then round: in float32 1-0.999 would lose 10 bits",
    kAdamwInputs,
    kAdamwOutputs,
    kAdamwAttributes,
    kAdamwDtypes,
    kNone,
    check_elementwise,
    adamw_cases,
    adamw_reference};

}  // namespace keel::ops
