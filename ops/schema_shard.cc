// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: losses over a sharded vocabulary, with a range of entries on each rank.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr AttributeSpec kFirst = {
    "first", AttributeKind::kInt, 0, 0, 0x1p31 - 1, "the vocabulary entry of the shard's column 0"};

constexpr InputSpec kCrossEntropyShardInputs[] = {{"logits", "[n,v], v >= 1"}, {"labels", "[n]"}};
constexpr OutputSpec kCrossEntropyShardOutputs[] = {
    {"max", "[n]"}, {"sum_exp", "[n]"}, {"target", "[n]"}};
constexpr AttributeSpec kCrossEntropyShardAttributes[] = {kFirst};
constexpr DtypeCombination kCrossEntropyShardDtypes[] = {
    {{f32, i32}, {f32, f32, f32}, false, kTranscendental},
    {{bf16, i32}, {f32, f32, f32}, true, kTranscendental},
    {{f16, i32}, {f32, f32, f32}, true, kTranscendental},
};

constexpr InputSpec kCrossEntropyShardBackwardInputs[] = {
    {"logits", "[n,v]"}, {"labels", "[n]"}, {"logsumexp", "[n]"}};
constexpr OutputSpec kCrossEntropyShardBackwardOutputs[] = {{"dlogits", "[n,v]", 0b1}};
constexpr AttributeSpec kCrossEntropyShardBackwardAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity,
     "the gradient of each row's loss: 1/n for a mean loss"},
    kFirst};
constexpr DtypeCombination kCrossEntropyShardBackwardDtypes[] = {
    {{f32, i32, f32}, {f32}, false, kTranscendental},
    {{bf16, i32, f32}, {bf16}, true, transcendental(kErrorBFloat16)},
    {{f16, i32, f32}, {f16}, true, transcendental(kErrorFloat16)},
};

}  // namespace

constinit const Schema kCrossEntropyShard = {
    KEEL_OP_CROSS_ENTROPY_SHARD,
    "cross_entropy_shard",
    "max[i] = the largest of logits[i,:] except NaN, minus infinity if all are NaN; sum_exp[i] = "
    "sum_j exp(logits[i,j] - max[i]), 0 for a row of only minus infinity, NaN for a row with NaN "
    "or plus infinity; target[i] = logits[i,labels[i]-first], 0 if the shard does not have that "
    "column. The caller computes the cross entropy of the whole vocabulary: top = all_reduce(max, "
    "by max); total = all_reduce(sum_exp * exp(max - top), by sum), where a max of minus infinity "
    "adds 0; logsumexp = top + log(total); loss = logsumexp - all_reduce(target, by sum), and 0 in "
    "ignored rows, whose label is negative",
    kCrossEntropyShardInputs,
    kCrossEntropyShardOutputs,
    kCrossEntropyShardAttributes,
    kCrossEntropyShardDtypes,
    f32,
    check_cross_entropy_shard,
    cross_entropy_shard_cases,
    cross_entropy_shard_reference};
constinit const Schema kCrossEntropyShardBackward = {
    KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD,
    "cross_entropy_shard_backward",
    "dlogits[i,j] = scale * (exp(logits[i,j] - logsumexp[i]) - (first + j == labels[i])), with the "
    "logsumexp of the whole vocabulary. A negative label marks an ignored row, which gives 0; any "
    "other label outside the shard belongs to another shard. exp(...) is only as accurate as "
    "logsumexp, which float32 rounds by up to 2^-24 * |logsumexp|",
    kCrossEntropyShardBackwardInputs,
    kCrossEntropyShardBackwardOutputs,
    kCrossEntropyShardBackwardAttributes,
    kCrossEntropyShardBackwardDtypes,
    kNone,
    check_cross_entropy_shard_backward,
    cross_entropy_shard_backward_cases,
    cross_entropy_shard_backward_reference};

}  // namespace keel::ops
