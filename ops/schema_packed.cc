// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: weights packed once and multiplied often.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

#define KEEL_PACKED_SHAPE "[k,n], both rounded up to multiples of 64"

constexpr InputSpec kPackWeightsInputs[] = {{"b", "[k,n]; [n,k] if trans_b"}};
constexpr OutputSpec kPackWeightsOutputs[] = {
    {.name = "packed", .shape = KEEL_PACKED_SHAPE, .packed = true}};
constexpr AttributeSpec kPackWeightsAttributes[] = {
    {"trans_b", AttributeKind::kInt, 0, 0, 1, "1: b is stored transposed"}};
constexpr DtypeCombination kPackWeightsDtypes[] = {
    {{f32}, {f32}, false, {}},
    {{bf16}, {bf16}, true, {}},
    {{f16}, {f16}, true, {}},
};

constexpr InputSpec kPackedMatmulInputs[] = {
    {"a", "[m,k]; [k,m] if trans_a"},
    {.name = "packed", .shape = KEEL_PACKED_SHAPE, .packed = true},
    {"bias", "[n]", true}};
constexpr OutputSpec kPackedMatmulOutputs[] = {{"c", "[m,n]", 0, "beta is not 0"}};
constexpr AttributeSpec kPackedMatmulAttributes[] = {
    {"trans_a", AttributeKind::kInt, 0, 0, 1, "1: a is stored transposed"},
    {"alpha", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of the product"},
    {"beta", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "the factor of c's old content; with 0, c's old content is not read"},
    {"activation", AttributeKind::kInt, 0, 0, 3, "as in matmul"}};
constexpr DtypeCombination kPackedMatmulDtypes[] = {
    {{f32, f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{bf16, bf16, bf16}, {f32}, true, few_roundings(kErrorFloat32)},
    {{f16, f16, f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{f16, f16, f16}, {f32}, true, few_roundings(kErrorFloat32)},
};

#undef KEEL_PACKED_SHAPE

}  // namespace

constinit const Schema kPackWeights = {
    KEEL_OP_PACK_WEIGHTS,
    "pack_weights",
    "packed = op(b) in the element order that the device's own packed_matmul reads fastest, where "
    "op transposes an operand stored transposed. The device chooses the order and the content "
    "beyond k and n: only the device's own packed_matmul may read packed, and packed may not be "
    "moved to another device; after b changes, the caller packs b again",
    kPackWeightsInputs,
    kPackWeightsOutputs,
    kPackWeightsAttributes,
    kPackWeightsDtypes,
    kNone,
    check_pack_weights,
    pack_weights_cases,
    pack_weights_reference};
constinit const Schema kPackedMatmul = {
    KEEL_OP_PACKED_MATMUL,
    "packed_matmul",
    "c = activation(alpha * op(a) b + beta * c + bias), where packed is the output of pack_weights "
    "for b [k,n] on the same device. If packed holds the weights of another b with the same packed "
    "shape, or no packed weights, the numbers in c are arbitrary",
    kPackedMatmulInputs,
    kPackedMatmulOutputs,
    kPackedMatmulAttributes,
    kPackedMatmulDtypes,
    f32,
    check_packed_matmul,
    packed_matmul_cases,
    packed_matmul_reference};

}  // namespace keel::ops
