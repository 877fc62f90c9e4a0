// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: dropout.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr AttributeSpec kDropoutAttributes[] = {
    {"p", AttributeKind::kFloat, 0.1, 0, 1 - 0x1p-53, "the probability of dropping an element"},
    {"seed", AttributeKind::kInt, 0, -kInfinity, kInfinity, "the key of Philox"},
    {"offset", AttributeKind::kInt, 0, 0, 0x1p63,
     "the counter of Philox at element 0; a call on n elements uses n/4 counters, rounded up"}};

constexpr InputSpec kDropoutAddInputs[] = {
    {"x", "any"}, {"bias", "[last axis of x]", true}, {"residual", "as x", true}};
constexpr OutputSpec kDropoutAddOutputs[] = {{"y", "as x", 0b101}};
constexpr DtypeCombination kDropoutAddDtypes[] = {
    {{f32, f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{f16, f16, f16}, {f16}, true, few_roundings(kErrorFloat16)},
};

constexpr InputSpec kDropoutBackwardInputs[] = {{"dy", "any"}};
constexpr OutputSpec kDropoutBackwardOutputs[] = {{"dx", "as dy", 0b1}};
constexpr DtypeCombination kDropoutBackwardDtypes[] = {
    {{f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{f16}, {f16}, true, few_roundings(kErrorFloat16)},
};

}  // namespace

constinit const Schema kDropoutAdd = {
    KEEL_OP_DROPOUT_ADD,
    "dropout_add",
    "y = residual + kept / (1 - p) * (x + bias), where kept is 0 or 1; bias is added to every row, "
    "an absent bias or residual counts as 0, and a dropped x + bias contributes 0 even if NaN. "
    "Element i in row-major order is kept if word i % 4 of Philox4x32-10, with counter (offset + i "
    "/ 4) modulo 2^64 and key seed, is at least floor(p * 2^32): the same elements on every device",
    kDropoutAddInputs,
    kDropoutAddOutputs,
    kDropoutAttributes,
    kDropoutAddDtypes,
    kNone,
    check_dropout_add,
    dropout_add_cases,
    dropout_add_reference};
constinit const Schema kDropoutBackward = {
    KEEL_OP_DROPOUT_BACKWARD,
    "dropout_backward",
    "dx = kept / (1 - p) * dy, where kept is as in dropout_add with the same attributes; the "
    "gradient of bias is the sum of dx over the rows, the gradient of residual is dy",
    kDropoutBackwardInputs,
    kDropoutBackwardOutputs,
    kDropoutAttributes,
    kDropoutBackwardDtypes,
    kNone,
    check_elementwise,
    dropout_backward_cases,
    dropout_backward_reference};

}  // namespace keel::ops
