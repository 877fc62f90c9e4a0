// SPDX-License-Identifier: Apache-2.0
// Case generators of the operators, named by Schema::cases.
#ifndef KEEL_OPS_CASE_GENERATORS_H_
#define KEEL_OPS_CASE_GENERATORS_H_

#include <vector>

#include "ops/cases.h"

namespace keel::ops {

std::vector<Case> fill_cases();
std::vector<Case> cast_cases();
std::vector<Case> add_cases();
std::vector<Case> scale_cases();
std::vector<Case> axpy_cases();
std::vector<Case> sum_cases();
std::vector<Case> matmul_cases();
std::vector<Case> gelu_cases();
std::vector<Case> gelu_backward_cases();
std::vector<Case> embedding_cases();
std::vector<Case> embedding_backward_cases();
std::vector<Case> cross_entropy_cases();
std::vector<Case> cross_entropy_backward_cases();
std::vector<Case> adamw_cases();
// cases_norm.cc
std::vector<Case> layer_norm_cases();
std::vector<Case> layer_norm_backward_cases();
std::vector<Case> rms_norm_cases();
std::vector<Case> rms_norm_backward_cases();
std::vector<Case> softmax_cases();
std::vector<Case> softmax_backward_cases();
std::vector<Case> attention_cases();
std::vector<Case> attention_backward_cases();
std::vector<Case> attention_merge_cases();
std::vector<Case> batched_matmul_cases();
std::vector<Case> pack_weights_cases();
std::vector<Case> packed_matmul_cases();
std::vector<Case> sum_of_squares_cases();
std::vector<Case> clip_cases();
std::vector<Case> cross_entropy_shard_cases();
std::vector<Case> cross_entropy_shard_backward_cases();
std::vector<Case> swiglu_cases();
std::vector<Case> swiglu_backward_cases();
std::vector<Case> bias_gelu_cases();
std::vector<Case> bias_gelu_backward_cases();
std::vector<Case> rope_cases();
std::vector<Case> dropout_add_cases();
std::vector<Case> dropout_backward_cases();
std::vector<Case> transpose_cases();
std::vector<Case> cast_scaled_cases();

// Generators shared by all or several operators; empty for an operator to which they do not apply.
//
// cases_planned.cc: pairwise combinations of attributes, optional inputs, dtypes, aliasing and
// layouts, and special content in each input, from the operator's plan.
std::vector<Case> planned_cases(keel_op_id op);
// cases_extent.cc: rows longer and more numerous than any block, and far offsets and strides.
std::vector<Case> extent_cases(keel_op_id op);
// cases_rounding.cc: rounding, saturation and conversion, value by value.
std::vector<Case> rounding_cases(keel_op_id op);

}  // namespace keel::ops

#endif  // KEEL_OPS_CASE_GENERATORS_H_
