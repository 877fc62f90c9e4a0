// SPDX-License-Identifier: Apache-2.0
// Reference functions of the operators, named by Schema::reference.
#ifndef KEEL_OPS_REFERENCE_FUNCTIONS_H_
#define KEEL_OPS_REFERENCE_FUNCTIONS_H_

#include "ops/schema.h"

namespace keel::ops {

void fill_reference(Workspace& w);
void cast_reference(Workspace& w);
void add_reference(Workspace& w);
void scale_reference(Workspace& w);
void axpy_reference(Workspace& w);
void sum_reference(Workspace& w);
void matmul_reference(Workspace& w);
void gelu_reference(Workspace& w);
void gelu_backward_reference(Workspace& w);
void embedding_reference(Workspace& w);
void embedding_backward_reference(Workspace& w);
void cross_entropy_reference(Workspace& w);
void cross_entropy_backward_reference(Workspace& w);
void adamw_reference(Workspace& w);
// reference_norm.cc
void layer_norm_reference(Workspace& w);
void layer_norm_backward_reference(Workspace& w);
void rms_norm_reference(Workspace& w);
void rms_norm_backward_reference(Workspace& w);
void softmax_reference(Workspace& w);
void softmax_backward_reference(Workspace& w);
void attention_reference(Workspace& w);
void attention_backward_reference(Workspace& w);
void attention_merge_reference(Workspace& w);
void batched_matmul_reference(Workspace& w);
void pack_weights_reference(Workspace& w);
void packed_matmul_reference(Workspace& w);
void sum_of_squares_reference(Workspace& w);
void clip_reference(Workspace& w);
void cross_entropy_shard_reference(Workspace& w);
void cross_entropy_shard_backward_reference(Workspace& w);
void swiglu_reference(Workspace& w);
void swiglu_backward_reference(Workspace& w);
void bias_gelu_reference(Workspace& w);
void bias_gelu_backward_reference(Workspace& w);
void rope_reference(Workspace& w);
void dropout_add_reference(Workspace& w);
void dropout_backward_reference(Workspace& w);
void transpose_reference(Workspace& w);
void cast_scaled_reference(Workspace& w);

}  // namespace keel::ops

#endif  // KEEL_OPS_REFERENCE_FUNCTIONS_H_
