// SPDX-License-Identifier: Apache-2.0
// Shape rules of the operators, named by Schema::check_shapes. Each returns true, or writes |error|
// through refuse() and returns false. Ranks, extents, dtypes and attribute ranges have been
// checked; only optional tensors may be NULL.
#ifndef KEEL_OPS_SHAPE_RULES_H_
#define KEEL_OPS_SHAPE_RULES_H_

#include "ops/schema.h"

namespace keel::ops {

bool check_fill(const keel_op_call& call, CheckError* error);
// All inputs and outputs of one shape: cast, add, scale, axpy, gelu, adamw, dropout_backward.
bool check_elementwise(const keel_op_call& call, CheckError* error);
bool check_sum(const keel_op_call& call, CheckError* error);
bool check_matmul(const keel_op_call& call, CheckError* error);
bool check_embedding(const keel_op_call& call, CheckError* error);
bool check_embedding_backward(const keel_op_call& call, CheckError* error);
bool check_cross_entropy(const keel_op_call& call, CheckError* error);
bool check_cross_entropy_backward(const keel_op_call& call, CheckError* error);
// shape_rules_norm.cc
bool check_layer_norm(const keel_op_call& call, CheckError* error);
bool check_layer_norm_backward(const keel_op_call& call, CheckError* error);
bool check_rms_norm(const keel_op_call& call, CheckError* error);
bool check_rms_norm_backward(const keel_op_call& call, CheckError* error);
bool check_softmax(const keel_op_call& call, CheckError* error);
bool check_softmax_backward(const keel_op_call& call, CheckError* error);
bool check_attention(const keel_op_call& call, CheckError* error);
bool check_attention_backward(const keel_op_call& call, CheckError* error);
bool check_attention_merge(const keel_op_call& call, CheckError* error);
bool check_batched_matmul(const keel_op_call& call, CheckError* error);
bool check_pack_weights(const keel_op_call& call, CheckError* error);
bool check_packed_matmul(const keel_op_call& call, CheckError* error);
bool check_sum_of_squares(const keel_op_call& call, CheckError* error);
bool check_clip(const keel_op_call& call, CheckError* error);
bool check_cross_entropy_shard(const keel_op_call& call, CheckError* error);
bool check_cross_entropy_shard_backward(const keel_op_call& call, CheckError* error);
bool check_swiglu(const keel_op_call& call, CheckError* error);
bool check_swiglu_backward(const keel_op_call& call, CheckError* error);
bool check_bias_gelu(const keel_op_call& call, CheckError* error);
bool check_bias_gelu_backward(const keel_op_call& call, CheckError* error);
bool check_rope(const keel_op_call& call, CheckError* error);
bool check_dropout_add(const keel_op_call& call, CheckError* error);
bool check_transpose(const keel_op_call& call, CheckError* error);
bool check_cast_scaled(const keel_op_call& call, CheckError* error);
// shape_rules_families.cc. The inputs of elementwise, whose absent ones have no shape.
bool check_broadcast(const keel_op_call& call, CheckError* error);
bool check_reduce(const keel_op_call& call, CheckError* error);
bool check_gather(const keel_op_call& call, CheckError* error);
bool check_scatter(const keel_op_call& call, CheckError* error);

}  // namespace keel::ops

#endif  // KEEL_OPS_SHAPE_RULES_H_
