// SPDX-License-Identifier: Apache-2.0
// The compute shaders, compiled to SPIR-V at build time.
#ifndef KEEL_BACKENDS_VULKAN_SHADERS_H_
#define KEEL_BACKENDS_VULKAN_SHADERS_H_

#include <cstddef>
#include <cstdint>

namespace keel::vulkan {

enum class Shader : uint32_t {
  kFill64,
  kCast,
  kAdd,
  kAdd16,
  kScale,
  kScale16,
  kAxpy,
  kAxpy16,
  kSumRows,
  kSumRows16,
  kSumColumns,
  kSumColumns16,
  kEmbedding2,
  kEmbedding4,
  kEmbeddingBackward,
  kEmbeddingBackward16,
  kCrossEntropy,
  kCrossEntropy16,
  kCrossEntropyRest,
  kCrossEntropyRest16,
  kCrossEntropyBackward,
  kCrossEntropyBackward16,
  kAdamw,
  kAdamw16,
  kMatmulBegin,
  kMatmulEnd,
  kMatmulShared,
  kMatmulShared16,
  kMatmulTexel,
  kNorm,
  kNorm16,
  kNormBackward,
  kNormBackward16,
  kNormColumns,
  kNormColumns16,
  kSoftmax,
  kSoftmax16,
  kSoftmaxBackward,
  kSoftmaxBackward16,
  kAttention,
  kAttention16,
  kAttentionDelta,
  kAttentionDelta16,
  kAttentionDq,
  kAttentionDq16,
  kAttentionDkDv,
  kAttentionDkDv16,
  kAttentionMerge,
  kSumOfSquares,
  kSumOfSquares16,
  kClip,
  kClip16,
  kCrossEntropyShard,
  kCrossEntropyShard16,
  kCrossEntropyShardBackward,
  kCrossEntropyShardBackward16,
  kClamp,
  kClamp16,
  kClampBackward,
  kClampBackward16,
  kSwiglu,
  kSwiglu16,
  kSwigluBackward,
  kSwigluBackward16,
  kBiasGelu,
  kBiasGelu16,
  kBiasGeluBackward,
  kBiasGeluBackward16,
  kRope,
  kRope16,
  kDropout,
  kDropout16,
  kTranspose1,
  kTranspose2,
  kTranspose4,
  kTranspose8,
  kTranspose16,
  kCastScaled,
};
inline constexpr auto kShaderCount = static_cast<uint32_t>(Shader::kCastScaled) + 1;

// The choice of a workgroup's size (constant_id 0).
enum class WorkgroupShape {
  kElements,   // independent elements
  kReduction,  // invocations combine values by subgroups, then by shared memory
  kSubgroup,   // exactly one subgroup
  kFixed,      // |local_size| on every device
};

struct ShaderCode {
  const uint32_t* spirv;
  size_t words;
  WorkgroupShape shape;
  uint32_t local_size;
};

ShaderCode shader_code(Shader shader);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_SHADERS_H_
