// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: attention, its gradient, and the merge of partial results.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr AttributeSpec kAttentionAttributes[] = {
    {"scale", AttributeKind::kFloat, 1, -kInfinity, kInfinity,
     "the factor of the scores, usually 1/sqrt(d)"},
    {"causal", AttributeKind::kInt, 0, 0, 1,
     "1: query i of a sequence sees its keys j <= i + len_k - len_q"}};

// ---- attention

constexpr InputSpec kAttentionInputs[] = {{"q", "[tokens_q,heads,d], 1 <= d <= 256"},
                                          {"k", "[tokens_k,kv_heads,d], heads % kv_heads == 0"},
                                          {"v", "as k"},
                                          {"cu_seqlens_q", "[batch+1]", true},
                                          {"cu_seqlens_k", "[batch+1]", true}};
constexpr OutputSpec kAttentionOutputs[] = {{"out", "as q"}, {"logsumexp", "[heads,tokens_q]"}};
constexpr DtypeCombination kAttentionDtypes[] = {
    {{f32, f32, f32, i32, i32}, {f32, f32}, false, kTranscendental},
    {{bf16, bf16, bf16, i32, i32}, {bf16, f32}, true, transcendental(kErrorBFloat16)},
    {{f16, f16, f16, i32, i32}, {f16, f32}, true, transcendental(kErrorFloat16)}};

// ---- attention backward

constexpr InputSpec kAttentionBackwardInputs[] = {{"q", "[tokens_q,heads,d], 1 <= d <= 256"},
                                                  {"k", "[tokens_k,kv_heads,d]"},
                                                  {"v", "as k"},
                                                  {"out", "as q"},
                                                  {"dout", "as q"},
                                                  {"logsumexp", "[heads,tokens_q]"},
                                                  {"cu_seqlens_q", "[batch+1]", true},
                                                  {"cu_seqlens_k", "[batch+1]", true}};
constexpr OutputSpec kAttentionBackwardOutputs[] = {{"dq", "as q"}, {"dk", "as k"}, {"dv", "as k"}};
constexpr DtypeCombination kAttentionBackwardDtypes[] = {
    {{f32, f32, f32, f32, f32, f32, i32, i32}, {f32, f32, f32}, false, kTranscendental},
    {{bf16, bf16, bf16, bf16, bf16, f32, i32, i32},
     {bf16, bf16, bf16},
     true,
     transcendental(kErrorBFloat16)},
    {{f16, f16, f16, f16, f16, f32, i32, i32},
     {f16, f16, f16},
     true,
     transcendental(kErrorFloat16)}};

// ---- attention merge

constexpr InputSpec kAttentionMergeInputs[] = {{"out_a", "[tokens,heads,d]"},
                                               {"lse_a", "[heads,tokens]"},
                                               {"out_b", "as out_a"},
                                               {"lse_b", "as lse_a"}};
constexpr OutputSpec kAttentionMergeOutputs[] = {{"out", "as out_a", 0b1},
                                                 {"logsumexp", "as lse_a", 0b10}};
constexpr DtypeCombination kAttentionMergeDtypes[] = {
    {{f32, f32, f32, f32}, {f32, f32}, false, kTranscendental}};

}  // namespace

constinit const Schema kAttention = {
    KEEL_OP_ATTENTION,
    "attention",
    "out[i,h] = sum over the keys j visible to query i of softmax_j(scale * q[i,h] . k[j,g]) "
    "v[j,g], g = h / (heads / kv_heads); logsumexp[h,i] = log sum_j exp(scale * q[i,h] . k[j,g]). "
    "A query sees the keys of its sequence. A query without visible keys, or with all scores "
    "-infinity, gives out = 0 and logsumexp = -infinity; keys and values that a query does not see "
    "contribute nothing, even if NaN. Sequence s is the tokens from cu_seqlens[s] up to, not "
    "including, cu_seqlens[s+1]. Each entry counts as the maximum of the entries up to and "
    "including it, clamped to [0,tokens]: whatever the entries are, sequences are disjoint, in "
    "order and within the tensors. Tokens before the first sequence and after the last belong to "
    "no sequence. The caller passes both cu_seqlens or neither; without them all tokens form one "
    "sequence. The workspace grows with the number of tokens, not with tokens_q * tokens_k",
    kAttentionInputs,
    kAttentionOutputs,
    kAttentionAttributes,
    kAttentionDtypes,
    f32,
    check_attention,
    attention_cases,
    attention_reference};
constinit const Schema kAttentionBackward = {
    KEEL_OP_ATTENTION_BACKWARD,
    "attention_backward",
    "the gradients of attention from the inputs and outputs of attention: p[i,j] = exp(scale * "
    "q[i] . k[j] - logsumexp[i]), ds[i,j] = p[i,j] * (dout[i] . v[j] - dout[i] . out[i]), dq[i] = "
    "scale * sum_j ds[i,j] k[j], dk[j] = scale * sum_i ds[i,j] q[i], dv[j] = sum_i p[i,j] dout[i], "
    "where i runs over the queries, of all heads of a group, that see key j; the order of "
    "summation is fixed for the shapes and cu_seqlens. A query whose logsumexp is -infinity has dq "
    "= 0 and contributes nothing to dk and dv. cu_seqlens are as in attention",
    kAttentionBackwardInputs,
    kAttentionBackwardOutputs,
    kAttentionAttributes,
    kAttentionBackwardDtypes,
    f32,
    check_attention_backward,
    attention_backward_cases,
    attention_backward_reference};
constinit const Schema kAttentionMerge = {
    KEEL_OP_ATTENTION_MERGE,
    "attention_merge",
    "merges the attention of the same queries to two disjoint sets of keys, a and b: logsumexp = "
    "log(exp(lse_a) + exp(lse_b)), out = exp(lse_a - logsumexp) out_a + exp(lse_b - logsumexp) "
    "out_b; a side whose lse is -infinity contributes nothing, whatever that side's out holds",
    kAttentionMergeInputs,
    kAttentionMergeOutputs,
    {},
    kAttentionMergeDtypes,
    f32,
    check_attention_merge,
    attention_merge_cases,
    attention_merge_reference};

}  // namespace keel::ops
