// SPDX-License-Identifier: Apache-2.0
// The rows of the schema table by family. ops/schema_<family>.cc defines the rows with their shape
// rules, cases and references; ops/schema_table.cc numbers them.
#ifndef KEEL_OPS_SCHEMA_ROWS_H_
#define KEEL_OPS_SCHEMA_ROWS_H_

#include "ops/schema.h"

namespace keel::ops {

// ---- elementwise
extern const Schema kFill;
extern const Schema kCast;
extern const Schema kAdd;
extern const Schema kScale;
extern const Schema kAxpy;
extern const Schema kGelu;
extern const Schema kGeluBackward;
extern const Schema kAdamw;

// ---- structured
extern const Schema kSum;
extern const Schema kMatmul;
extern const Schema kEmbedding;
extern const Schema kEmbeddingBackward;
extern const Schema kCrossEntropy;
extern const Schema kCrossEntropyBackward;

// ---- norm
extern const Schema kLayerNorm;
extern const Schema kLayerNormBackward;
extern const Schema kRmsNorm;
extern const Schema kRmsNormBackward;
extern const Schema kSoftmax;
extern const Schema kSoftmaxBackward;
// ---- attention
extern const Schema kAttention;
extern const Schema kAttentionBackward;
extern const Schema kAttentionMerge;
// ---- product
extern const Schema kBatchedMatmul;
// ---- packed
extern const Schema kPackWeights;
extern const Schema kPackedMatmul;

// ---- optimizer
extern const Schema kSumOfSquares;
extern const Schema kClip;

// ---- shard
extern const Schema kCrossEntropyShard;
extern const Schema kCrossEntropyShardBackward;
// ---- activations
extern const Schema kSwiglu;
extern const Schema kSwigluBackward;
extern const Schema kBiasGelu;
extern const Schema kBiasGeluBackward;
// ---- rope
extern const Schema kRope;
// ---- dropout
extern const Schema kDropoutAdd;
extern const Schema kDropoutBackward;
// ---- layout
extern const Schema kTranspose;
// ---- scaled
extern const Schema kCastScaled;

}  // namespace keel::ops

#endif  // KEEL_OPS_SCHEMA_ROWS_H_
