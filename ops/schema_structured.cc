// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: sums, products, tables, losses.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

// ---- sum

constexpr InputSpec kSumInputs[] = {{"x", "[rows,cols]"}};
constexpr OutputSpec kSumOutputs[] = {{"y", "[cols], [rows] or []"}};
constexpr AttributeSpec kSumAttributes[] = {{"axis", AttributeKind::kInt, -1, -1, 1,
                                             "0: over the rows, y is [cols]; 1: over the columns, "
                                             "y is [rows]; -1: over all elements, y is []"}};
constexpr DtypeCombination kSumDtypes[] = {
    {{f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{bf16}, {f32}, true, few_roundings(kErrorFloat32)},
    {{f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{f16}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- matmul

constexpr InputSpec kMatmulInputs[] = {
    {"a", "[m,k]; [k,m] if trans_a"}, {"b", "[k,n]; [n,k] if trans_b"}, {"bias", "[n]", true}};
constexpr OutputSpec kMatmulOutputs[] = {{"c", "[m,n]", 0, "beta is not 0"}};
constexpr AttributeSpec kMatmulAttributes[] = {
    {"trans_a", AttributeKind::kInt, 0, 0, 1, "1: a is stored transposed"},
    {"trans_b", AttributeKind::kInt, 0, 0, 1, "1: b is stored transposed"},
    {"alpha", AttributeKind::kFloat, 1, -kInfinity, kInfinity, "the factor of the product"},
    {"beta", AttributeKind::kFloat, 0, -kInfinity, kInfinity,
     "the factor of c's old content; with 0, c's old content is not read"},
    {"activation", AttributeKind::kInt, 0, 0, 3,
     "applied to the float32 sum before rounding to c: 0: none; 1: gelu by tanh; 2: gelu by erf, "
     "both as in bias_gelu; 3: silu(t) = t / (1 + exp(-t))"}};
constexpr DtypeCombination kMatmulDtypes[] = {
    {{f32, f32, f32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, bf16, bf16}, {bf16}, true, few_roundings(kErrorBFloat16)},
    {{bf16, bf16, bf16}, {f32}, true, few_roundings(kErrorFloat32)},
    {{f16, f16, f16}, {f16}, true, few_roundings(kErrorFloat16)},
    {{f16, f16, f16}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- embedding

constexpr InputSpec kEmbeddingInputs[] = {{"table", "[v,d]"}, {"indices", "[n]"}};
constexpr OutputSpec kEmbeddingOutputs[] = {{"out", "[n,d]"}};
constexpr AttributeSpec kEmbeddingAttributes[] = {
    {"first", AttributeKind::kInt, 0, 0, 0x1p31 - 1,
     "the index of the table's row 0; first + v is at most 2^31"}};
constexpr DtypeCombination kEmbeddingDtypes[] = {
    {{f32, i32}, {f32}, false, rounded_once(kErrorExact)},
    {{bf16, i32}, {bf16}, true, rounded_once(kErrorExact)},
    {{f16, i32}, {f16}, true, rounded_once(kErrorExact)},
};
constexpr InputSpec kEmbeddingBackwardInputs[] = {{"dout", "[n,d]"}, {"indices", "[n]"}};
constexpr OutputSpec kEmbeddingBackwardOutputs[] = {{"dtable", "[v,d]"}};
constexpr DtypeCombination kEmbeddingBackwardDtypes[] = {
    {{f32, i32}, {f32}, false, few_roundings(kErrorFloat32)},
    {{bf16, i32}, {f32}, true, few_roundings(kErrorFloat32)},
    {{f16, i32}, {f32}, true, few_roundings(kErrorFloat32)},
};

// ---- cross entropy

constexpr InputSpec kCrossEntropyInputs[] = {{"logits", "[n,v], v >= 1"}, {"labels", "[n]"}};
constexpr OutputSpec kCrossEntropyOutputs[] = {{"loss", "[n]"}, {"logsumexp", "[n]"}};
constexpr DtypeCombination kCrossEntropyDtypes[] = {
    {{f32, i32}, {f32, f32}, false, kTranscendental},
    {{bf16, i32}, {f32, f32}, true, kTranscendental},
    {{f16, i32}, {f32, f32}, true, kTranscendental},
};
constexpr InputSpec kCrossEntropyBackwardInputs[] = {
    {"logits", "[n,v]"}, {"labels", "[n]"}, {"logsumexp", "[n]"}};
constexpr OutputSpec kCrossEntropyBackwardOutputs[] = {{"dlogits", "[n,v]", 0b1}};
constexpr AttributeSpec kCrossEntropyBackwardAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity,
     "the gradient of each row's loss: 1/n for a mean loss"}};
constexpr DtypeCombination kCrossEntropyBackwardDtypes[] = {
    {{f32, i32, f32}, {f32}, false, kTranscendental},
    {{bf16, i32, f32}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, i32, f32}, {f16}, true, transcendental(kErrorFloat16)},
};

}  // namespace

constinit const Schema kSum = {
    KEEL_OP_SUM,
    "sum",
    "y = sum of x along an axis; the order of summation is fixed for a shape",
    kSumInputs,
    kSumOutputs,
    kSumAttributes,
    kSumDtypes,
    f32,
    check_sum,
    sum_cases,
    sum_reference};
constinit const Schema kMatmul = {
    KEEL_OP_MATMUL,
    "matmul",
    "c = activation(alpha * op(a) op(b) + beta * c + bias), where op transposes an operand stored "
    "transposed; bias is added to every row",
    kMatmulInputs,
    kMatmulOutputs,
    kMatmulAttributes,
    kMatmulDtypes,
    f32,
    check_matmul,
    matmul_cases,
    matmul_reference};
constinit const Schema kEmbedding = {
    KEEL_OP_EMBEDDING,
    "embedding",
    "out[i] = table[indices[i]-first], bit for bit; an index outside [first,first+v) gives a row "
    "of zeroes. For a sharded table, with a range of rows on each rank, all_reduce(out, by sum) "
    "gives the rows of the whole table",
    kEmbeddingInputs,
    kEmbeddingOutputs,
    kEmbeddingAttributes,
    kEmbeddingDtypes,
    kNone,
    check_embedding,
    embedding_cases,
    embedding_reference};
constinit const Schema kEmbeddingBackward = {
    KEEL_OP_EMBEDDING_BACKWARD,
    "embedding_backward",
    "dtable[j] = sum of dout[i] over all i with indices[i] == first + j, in the order of i; every "
    "row is written; indices outside [first,first+v) contribute to no row",
    kEmbeddingBackwardInputs,
    kEmbeddingBackwardOutputs,
    kEmbeddingAttributes,
    kEmbeddingBackwardDtypes,
    f32,
    check_embedding_backward,
    embedding_backward_cases,
    embedding_backward_reference};
constinit const Schema kCrossEntropy = {
    KEEL_OP_CROSS_ENTROPY,
    "cross_entropy",
    "logsumexp[i] = log sum_j exp(logits[i,j]); loss[i] = logsumexp[i] - logits[i,labels[i]]; a "
    "label outside [0,v) marks an ignored row, whose loss is 0",
    kCrossEntropyInputs,
    kCrossEntropyOutputs,
    {},
    kCrossEntropyDtypes,
    f32,
    check_cross_entropy,
    cross_entropy_cases,
    cross_entropy_reference};
constinit const Schema kCrossEntropyBackward = {
    KEEL_OP_CROSS_ENTROPY_BACKWARD,
    "cross_entropy_backward",
    "dlogits[i,j] = scale * (p[i,j] - (j == labels[i])), p[i,j] = exp(logits[i,j] - logsumexp[i]); "
    "ignored rows give 0. If |logsumexp[i]| >= 64 and logsumexp[i] differs from the value "
    "recomputed from row i by less than 2^-17 * |logsumexp[i]|, the kernel uses the recomputed "
    "value, unrounded: p then adds up to 1, whatever offset the logits of a row share",
    kCrossEntropyBackwardInputs,
    kCrossEntropyBackwardOutputs,
    kCrossEntropyBackwardAttributes,
    kCrossEntropyBackwardDtypes,
    kNone,
    check_cross_entropy_backward,
    cross_entropy_backward_cases,
    cross_entropy_backward_reference};

}  // namespace keel::ops
