// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: rotary positions.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr InputSpec kRopeInputs[] = {{"x", "[tokens,heads,d], d even"},
                                     {"cos", "[positions,d/2]"},
                                     {"sin", "as cos"},
                                     {"positions", "[tokens]"}};
constexpr OutputSpec kRopeOutputs[] = {{"y", "as x", 0b1}};
constexpr AttributeSpec kRopeAttributes[] = {
    {"interleaved", AttributeKind::kInt, 0, 0, 1,
     "0: pair j is elements j and j + d/2 of a head; 1: pair j is elements 2j and 2j + 1"},
    {"inverse", AttributeKind::kInt, 0, 0, 1, "1: rotates back, as for the gradient"}};
constexpr DtypeCombination kRopeDtypes[] = {
    {{f32, f32, f32, i32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, f32, f32, i32}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{f16, f32, f32, i32}, {f16}, true, few_roundings(kErrorFloat16)},
};

}  // namespace

constinit const Schema kRope = {
    KEEL_OP_ROPE,
    "rope",
    "rotates each pair (a, b) of a head to (a c - b s, b c + a s): pair j of token t has c = "
    "cos[positions[t],j] and s = sin[positions[t],j], negated if inverse; a token whose position "
    "is outside the table's rows gives zeroes",
    kRopeInputs,
    kRopeOutputs,
    kRopeAttributes,
    kRopeDtypes,
    kNone,
    check_rope,
    rope_cases,
    rope_reference};

}  // namespace keel::ops
