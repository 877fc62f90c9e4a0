// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/shaders.h"

#include <iterator>

namespace keel::vulkan {

namespace {

constexpr uint32_t kFill64[] = {
#include "shaders/fill64.inc"
};
constexpr uint32_t kCast[] = {
#include "shaders/cast.inc"
};
constexpr uint32_t kAdd[] = {
#include "shaders/add.inc"
};
constexpr uint32_t kAdd16[] = {
#include "shaders/add_16.inc"
};
constexpr uint32_t kScale[] = {
#include "shaders/scale.inc"
};
constexpr uint32_t kScale16[] = {
#include "shaders/scale_16.inc"
};
constexpr uint32_t kAxpy[] = {
#include "shaders/axpy.inc"
};
constexpr uint32_t kAxpy16[] = {
#include "shaders/axpy_16.inc"
};
constexpr uint32_t kSumRows[] = {
#include "shaders/sum_rows.inc"
};
constexpr uint32_t kSumRows16[] = {
#include "shaders/sum_rows_16.inc"
};
constexpr uint32_t kSumColumns[] = {
#include "shaders/sum_columns.inc"
};
constexpr uint32_t kSumColumns16[] = {
#include "shaders/sum_columns_16.inc"
};
constexpr uint32_t kEmbedding2[] = {
#include "shaders/embedding_2.inc"
};
constexpr uint32_t kEmbedding4[] = {
#include "shaders/embedding_4.inc"
};
constexpr uint32_t kEmbeddingBackward[] = {
#include "shaders/embedding_backward.inc"
};
constexpr uint32_t kEmbeddingBackward16[] = {
#include "shaders/embedding_backward_16.inc"
};
constexpr uint32_t kCrossEntropy[] = {
#include "shaders/cross_entropy.inc"
};
constexpr uint32_t kCrossEntropy16[] = {
#include "shaders/cross_entropy_16.inc"
};
constexpr uint32_t kCrossEntropyBackward[] = {
#include "shaders/cross_entropy_backward.inc"
};
constexpr uint32_t kCrossEntropyBackward16[] = {
#include "shaders/cross_entropy_backward_16.inc"
};
constexpr uint32_t kAdamw[] = {
#include "shaders/adamw.inc"
};
constexpr uint32_t kAdamw16[] = {
#include "shaders/adamw_16.inc"
};
constexpr uint32_t kMatmulBegin[] = {
#include "shaders/matmul_begin.inc"
};
constexpr uint32_t kMatmulEnd[] = {
#include "shaders/matmul_end.inc"
};
constexpr uint32_t kMatmulShared[] = {
#include "shaders/matmul_shared.inc"
};
constexpr uint32_t kMatmulShared16[] = {
#include "shaders/matmul_shared_16.inc"
};
constexpr uint32_t kMatmulTexel[] = {
#include "shaders/matmul_texel.inc"
};
constexpr uint32_t kNorm[] = {
#include "shaders/norm.inc"
};
constexpr uint32_t kNorm16[] = {
#include "shaders/norm_16.inc"
};
constexpr uint32_t kNormBackward[] = {
#include "shaders/norm_backward.inc"
};
constexpr uint32_t kNormBackward16[] = {
#include "shaders/norm_backward_16.inc"
};
constexpr uint32_t kNormColumns[] = {
#include "shaders/norm_columns.inc"
};
constexpr uint32_t kNormColumns16[] = {
#include "shaders/norm_columns_16.inc"
};
constexpr uint32_t kSoftmax[] = {
#include "shaders/softmax.inc"
};
constexpr uint32_t kSoftmax16[] = {
#include "shaders/softmax_16.inc"
};
constexpr uint32_t kSoftmaxBackward[] = {
#include "shaders/softmax_backward.inc"
};
constexpr uint32_t kSoftmaxBackward16[] = {
#include "shaders/softmax_backward_16.inc"
};
constexpr uint32_t kAttention[] = {
#include "shaders/attention.inc"
};
constexpr uint32_t kAttention16[] = {
#include "shaders/attention_16.inc"
};
constexpr uint32_t kAttentionDelta[] = {
#include "shaders/attention_delta.inc"
};
constexpr uint32_t kAttentionDelta16[] = {
#include "shaders/attention_delta_16.inc"
};
constexpr uint32_t kAttentionDq[] = {
#include "shaders/attention_dq.inc"
};
constexpr uint32_t kAttentionDq16[] = {
#include "shaders/attention_dq_16.inc"
};
constexpr uint32_t kAttentionDkDv[] = {
#include "shaders/attention_dk_dv.inc"
};
constexpr uint32_t kAttentionDkDv16[] = {
#include "shaders/attention_dk_dv_16.inc"
};
constexpr uint32_t kAttentionMerge[] = {
#include "shaders/attention_merge.inc"
};
constexpr uint32_t kSumOfSquares[] = {
#include "shaders/sum_of_squares.inc"
};
constexpr uint32_t kSumOfSquares16[] = {
#include "shaders/sum_of_squares_16.inc"
};
constexpr uint32_t kClip[] = {
#include "shaders/clip.inc"
};
constexpr uint32_t kClip16[] = {
#include "shaders/clip_16.inc"
};
constexpr uint32_t kCrossEntropyShard[] = {
#include "shaders/cross_entropy_shard.inc"
};
constexpr uint32_t kCrossEntropyShard16[] = {
#include "shaders/cross_entropy_shard_16.inc"
};
constexpr uint32_t kCrossEntropyShardBackward[] = {
#include "shaders/cross_entropy_shard_backward.inc"
};
constexpr uint32_t kCrossEntropyShardBackward16[] = {
#include "shaders/cross_entropy_shard_backward_16.inc"
};
constexpr uint32_t kSwiglu[] = {
#include "shaders/swiglu.inc"
};
constexpr uint32_t kSwiglu16[] = {
#include "shaders/swiglu_16.inc"
};
constexpr uint32_t kSwigluBackward[] = {
#include "shaders/swiglu_backward.inc"
};
constexpr uint32_t kSwigluBackward16[] = {
#include "shaders/swiglu_backward_16.inc"
};
constexpr uint32_t kBiasGelu[] = {
#include "shaders/bias_gelu.inc"
};
constexpr uint32_t kBiasGelu16[] = {
#include "shaders/bias_gelu_16.inc"
};
constexpr uint32_t kBiasGeluBackward[] = {
#include "shaders/bias_gelu_backward.inc"
};
constexpr uint32_t kBiasGeluBackward16[] = {
#include "shaders/bias_gelu_backward_16.inc"
};
constexpr uint32_t kRope[] = {
#include "shaders/rope.inc"
};
constexpr uint32_t kRope16[] = {
#include "shaders/rope_16.inc"
};
constexpr uint32_t kDropout[] = {
#include "shaders/dropout.inc"
};
constexpr uint32_t kDropout16[] = {
#include "shaders/dropout_16.inc"
};
constexpr uint32_t kTranspose1[] = {
#include "shaders/transpose_1.inc"
};
constexpr uint32_t kTranspose2[] = {
#include "shaders/transpose_2.inc"
};
constexpr uint32_t kTranspose4[] = {
#include "shaders/transpose_4.inc"
};
constexpr uint32_t kTranspose8[] = {
#include "shaders/transpose_8.inc"
};
constexpr uint32_t kTranspose16[] = {
#include "shaders/transpose_16.inc"
};
constexpr uint32_t kCastScaled[] = {
#include "shaders/cast_scaled.inc"
};

// In the order of Shader.
constexpr ShaderCode kCode[] = {
    {kFill64, std::size(kFill64), WorkgroupShape::kElements, 0},
    {kCast, std::size(kCast), WorkgroupShape::kElements, 0},
    {kAdd, std::size(kAdd), WorkgroupShape::kElements, 0},
    {kAdd16, std::size(kAdd16), WorkgroupShape::kElements, 0},
    {kScale, std::size(kScale), WorkgroupShape::kElements, 0},
    {kScale16, std::size(kScale16), WorkgroupShape::kElements, 0},
    {kAxpy, std::size(kAxpy), WorkgroupShape::kElements, 0},
    {kAxpy16, std::size(kAxpy16), WorkgroupShape::kElements, 0},
    {kSumRows, std::size(kSumRows), WorkgroupShape::kReduction, 0},
    {kSumRows16, std::size(kSumRows16), WorkgroupShape::kReduction, 0},
    {kSumColumns, std::size(kSumColumns), WorkgroupShape::kElements, 0},
    {kSumColumns16, std::size(kSumColumns16), WorkgroupShape::kElements, 0},
    {kEmbedding2, std::size(kEmbedding2), WorkgroupShape::kElements, 0},
    {kEmbedding4, std::size(kEmbedding4), WorkgroupShape::kElements, 0},
    {kEmbeddingBackward, std::size(kEmbeddingBackward), WorkgroupShape::kSubgroup, 0},
    {kEmbeddingBackward16, std::size(kEmbeddingBackward16), WorkgroupShape::kSubgroup, 0},
    {kCrossEntropy, std::size(kCrossEntropy), WorkgroupShape::kReduction, 0},
    {kCrossEntropy16, std::size(kCrossEntropy16), WorkgroupShape::kReduction, 0},
    {kCrossEntropyBackward, std::size(kCrossEntropyBackward), WorkgroupShape::kElements, 0},
    {kCrossEntropyBackward16, std::size(kCrossEntropyBackward16), WorkgroupShape::kElements, 0},
    {kAdamw, std::size(kAdamw), WorkgroupShape::kElements, 0},
    {kAdamw16, std::size(kAdamw16), WorkgroupShape::kElements, 0},
    {kMatmulBegin, std::size(kMatmulBegin), WorkgroupShape::kElements, 0},
    {kMatmulEnd, std::size(kMatmulEnd), WorkgroupShape::kElements, 0},
    {kMatmulShared, std::size(kMatmulShared), WorkgroupShape::kFixed, 256},
    {kMatmulShared16, std::size(kMatmulShared16), WorkgroupShape::kFixed, 256},
    {kMatmulTexel, std::size(kMatmulTexel), WorkgroupShape::kSubgroup, 0},
    {kNorm, std::size(kNorm), WorkgroupShape::kReduction, 0},
    {kNorm16, std::size(kNorm16), WorkgroupShape::kReduction, 0},
    {kNormBackward, std::size(kNormBackward), WorkgroupShape::kReduction, 0},
    {kNormBackward16, std::size(kNormBackward16), WorkgroupShape::kReduction, 0},
    {kNormColumns, std::size(kNormColumns), WorkgroupShape::kElements, 0},
    {kNormColumns16, std::size(kNormColumns16), WorkgroupShape::kElements, 0},
    {kSoftmax, std::size(kSoftmax), WorkgroupShape::kReduction, 0},
    {kSoftmax16, std::size(kSoftmax16), WorkgroupShape::kReduction, 0},
    {kSoftmaxBackward, std::size(kSoftmaxBackward), WorkgroupShape::kReduction, 0},
    {kSoftmaxBackward16, std::size(kSoftmaxBackward16), WorkgroupShape::kReduction, 0},
    {kAttention, std::size(kAttention), WorkgroupShape::kFixed, 256},
    {kAttention16, std::size(kAttention16), WorkgroupShape::kFixed, 256},
    {kAttentionDelta, std::size(kAttentionDelta), WorkgroupShape::kReduction, 0},
    {kAttentionDelta16, std::size(kAttentionDelta16), WorkgroupShape::kReduction, 0},
    {kAttentionDq, std::size(kAttentionDq), WorkgroupShape::kFixed, 256},
    {kAttentionDq16, std::size(kAttentionDq16), WorkgroupShape::kFixed, 256},
    {kAttentionDkDv, std::size(kAttentionDkDv), WorkgroupShape::kFixed, 256},
    {kAttentionDkDv16, std::size(kAttentionDkDv16), WorkgroupShape::kFixed, 256},
    {kAttentionMerge, std::size(kAttentionMerge), WorkgroupShape::kElements, 0},
    {kSumOfSquares, std::size(kSumOfSquares), WorkgroupShape::kReduction, 0},
    {kSumOfSquares16, std::size(kSumOfSquares16), WorkgroupShape::kReduction, 0},
    {kClip, std::size(kClip), WorkgroupShape::kElements, 0},
    {kClip16, std::size(kClip16), WorkgroupShape::kElements, 0},
    {kCrossEntropyShard, std::size(kCrossEntropyShard), WorkgroupShape::kReduction, 0},
    {kCrossEntropyShard16, std::size(kCrossEntropyShard16), WorkgroupShape::kReduction, 0},
    {kCrossEntropyShardBackward, std::size(kCrossEntropyShardBackward), WorkgroupShape::kElements,
     0},
    {kCrossEntropyShardBackward16, std::size(kCrossEntropyShardBackward16),
     WorkgroupShape::kElements, 0},
    {kSwiglu, std::size(kSwiglu), WorkgroupShape::kElements, 0},
    {kSwiglu16, std::size(kSwiglu16), WorkgroupShape::kElements, 0},
    {kSwigluBackward, std::size(kSwigluBackward), WorkgroupShape::kElements, 0},
    {kSwigluBackward16, std::size(kSwigluBackward16), WorkgroupShape::kElements, 0},
    {kBiasGelu, std::size(kBiasGelu), WorkgroupShape::kElements, 0},
    {kBiasGelu16, std::size(kBiasGelu16), WorkgroupShape::kElements, 0},
    {kBiasGeluBackward, std::size(kBiasGeluBackward), WorkgroupShape::kElements, 0},
    {kBiasGeluBackward16, std::size(kBiasGeluBackward16), WorkgroupShape::kElements, 0},
    {kRope, std::size(kRope), WorkgroupShape::kElements, 0},
    {kRope16, std::size(kRope16), WorkgroupShape::kElements, 0},
    {kDropout, std::size(kDropout), WorkgroupShape::kElements, 0},
    {kDropout16, std::size(kDropout16), WorkgroupShape::kElements, 0},
    {kTranspose1, std::size(kTranspose1), WorkgroupShape::kFixed, 256},
    {kTranspose2, std::size(kTranspose2), WorkgroupShape::kFixed, 256},
    {kTranspose4, std::size(kTranspose4), WorkgroupShape::kFixed, 256},
    {kTranspose8, std::size(kTranspose8), WorkgroupShape::kFixed, 256},
    {kTranspose16, std::size(kTranspose16), WorkgroupShape::kFixed, 256},
    {kCastScaled, std::size(kCastScaled), WorkgroupShape::kElements, 0},
};
static_assert(std::size(kCode) == kShaderCount);

}  // namespace

const ShaderCode& shader_code(Shader shader) {
  return kCode[static_cast<uint32_t>(shader)];
}

}  // namespace keel::vulkan
