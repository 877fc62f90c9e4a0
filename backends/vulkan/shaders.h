// The compute shaders, compiled to SPIR-V when the plugin was built.
#ifndef KEEL_BACKENDS_VULKAN_SHADERS_H_
#define KEEL_BACKENDS_VULKAN_SHADERS_H_

#include <cstddef>
#include <cstdint>

namespace keel::vulkan {

enum class Shader : uint32_t {
  kFill64,
  kCast,
  kAdd,
  kScale,
  kAxpy,
  kSumRows,
  kSumColumns,
  kEmbedding2,
  kEmbedding4,
  kEmbeddingBackward,
  kEmbeddingBackward16,
  kCrossEntropy,
  kCrossEntropyBackward,
  kAdamw,
  kMatmulBegin,
  kMatmulEnd,
  kMatmulShared,
  kMatmulShared16,
  kMatmulTexel,
  kNorm,
  kNormBackward,
  kNormColumns,
  kSoftmax,
  kSoftmaxBackward,
  kAttention,
  kAttentionDelta,
  kAttentionDq,
  kAttentionDkDv,
  kAttentionMerge,
  kSumOfSquares,
  kClip,
  kCrossEntropyShard,
  kCrossEntropyShardBackward,
  kSwiglu,
  kSwigluBackward,
  kBiasGelu,
  kBiasGeluBackward,
  kRope,
  kDropout,
  kTranspose1,
  kTranspose2,
  kTranspose4,
  kTranspose8,
  kTranspose16,
  kCastScaled,
};
inline constexpr uint32_t kShaderCount = 45;

// How the invocations of a workgroup are counted (constant_id 0).
enum class WorkgroupShape {
  kElements,   // independent elements
  kReduction,  // they combine values through subgroups, then through shared memory
  kSubgroup,   // exactly one subgroup
  kFixed,      // |local_size|, whatever the device
};

struct ShaderCode {
  const uint32_t* spirv;
  size_t words;
  WorkgroupShape shape;
  uint32_t local_size;
};

const ShaderCode& shader_code(Shader shader);

}  // namespace keel::vulkan

#endif  // KEEL_BACKENDS_VULKAN_SHADERS_H_
