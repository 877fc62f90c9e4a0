// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: batched products.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr InputSpec kBatchedMatmulInputs[] = {{"a", "[batch,m,k]; [batch,k,m] if trans_a"},
                                              {"b", "[batch,k,n]; [batch,n,k] if trans_b"}};
constexpr OutputSpec kBatchedMatmulOutputs[] = {{"c", "[batch,m,n]", 0, "beta is not 0"}};
constexpr AttributeSpec kBatchedMatmulAttributes[] = {
    {"trans_a", AttributeKind::kInt, 0, 0, 1, "1: the matrices of a are stored transposed"},
    {"trans_b", AttributeKind::kInt, 0, 0, 1, "1: the matrices of b are stored transposed"},
    {"alpha", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of the products"},
    {"beta", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "the factor of c's old content; with 0, c's old content is not read"}};
constexpr DtypeCombination kBatchedMatmulDtypes[] = {
    {{f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{bf16, bf16}, {f32}, true, few_roundings(kErrorFloat32)},
    {{f16, f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{f16, f16}, {f32}, true, few_roundings(kErrorFloat32)},
};

}  // namespace

constinit const Schema kBatchedMatmul = {
    KEEL_OP_BATCHED_MATMUL,
    "batched_matmul",
    "c[i] = alpha * op(a[i]) op(b[i]) + beta * c[i] for each i of the batch, where op transposes "
    "an operand stored transposed; with a stride of 0 along the batch all products share one "
    "matrix",
    kBatchedMatmulInputs,
    kBatchedMatmulOutputs,
    kBatchedMatmulAttributes,
    kBatchedMatmulDtypes,
    f32,
    check_batched_matmul,
    batched_matmul_cases,
    batched_matmul_reference};

}  // namespace keel::ops
