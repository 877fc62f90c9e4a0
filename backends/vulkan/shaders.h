// SPDX-License-Identifier: Apache-2.0
// The compute shaders, compiled to SPIR-V at build time.
#ifndef KEEL_BACKENDS_VULKAN_SHADERS_H_
#define KEEL_BACKENDS_VULKAN_SHADERS_H_

#include <cstddef>
#include <cstdint>

// All shaders: enumerator, module, WorkgroupShape and local size. TWO is for a shader that is
// compiled for two widths: its row stands for module and module_16, whose enumerators are adjacent.
// CMakeLists.txt says how the modules are compiled.
#define KEEL_VULKAN_SHADERS(ONE, TWO)                                         \
  ONE(kFill64, fill64, kElements, 0)                                          \
  ONE(kCast, cast, kElements, 0)                                              \
  TWO(kAdd, add, kElements, 0)                                                \
  TWO(kScale, scale, kElements, 0)                                            \
  TWO(kAxpy, axpy, kElements, 0)                                              \
  TWO(kSumRows, sum_rows, kReduction, 0)                                      \
  TWO(kSumColumns, sum_columns, kElements, 0)                                 \
  ONE(kEmbedding2, embedding_2, kElements, 0)                                 \
  ONE(kEmbedding4, embedding_4, kElements, 0)                                 \
  TWO(kEmbeddingBackward, embedding_backward, kSubgroup, 0)                   \
  TWO(kCrossEntropy, cross_entropy, kReduction, 0)                            \
  TWO(kCrossEntropyRest, cross_entropy_rest, kReduction, 0)                   \
  TWO(kCrossEntropyBackward, cross_entropy_backward, kElements, 0)            \
  TWO(kAdamw, adamw, kElements, 0)                                            \
  ONE(kMatmulBegin, matmul_begin, kElements, 0)                               \
  ONE(kMatmulEnd, matmul_end, kElements, 0)                                   \
  TWO(kMatmulShared, matmul_shared, kFixed, 256)                              \
  ONE(kMatmulTexel, matmul_texel, kSubgroup, 0)                               \
  TWO(kNorm, norm, kReduction, 0)                                             \
  TWO(kNormBackward, norm_backward, kReduction, 0)                            \
  TWO(kNormColumns, norm_columns, kElements, 0)                               \
  TWO(kSoftmax, softmax, kReduction, 0)                                       \
  TWO(kSoftmaxBackward, softmax_backward, kReduction, 0)                      \
  TWO(kAttention, attention, kFixed, 256)                                     \
  TWO(kAttentionDelta, attention_delta, kReduction, 0)                        \
  TWO(kAttentionDq, attention_dq, kFixed, 256)                                \
  TWO(kAttentionDkDv, attention_dk_dv, kFixed, 256)                           \
  ONE(kAttentionMerge, attention_merge, kElements, 0)                         \
  TWO(kSumOfSquares, sum_of_squares, kReduction, 0)                           \
  TWO(kClip, clip, kElements, 0)                                              \
  TWO(kCrossEntropyShard, cross_entropy_shard, kReduction, 0)                 \
  TWO(kCrossEntropyShardBackward, cross_entropy_shard_backward, kElements, 0) \
  TWO(kClamp, clamp, kElements, 0)                                            \
  TWO(kClampBackward, clamp_backward, kElements, 0)                           \
  TWO(kSwiglu, swiglu, kElements, 0)                                          \
  TWO(kSwigluBackward, swiglu_backward, kElements, 0)                         \
  TWO(kBiasGelu, bias_gelu, kElements, 0)                                     \
  TWO(kBiasGeluBackward, bias_gelu_backward, kElements, 0)                    \
  TWO(kRope, rope, kElements, 0)                                              \
  TWO(kDropout, dropout, kElements, 0)                                        \
  ONE(kTranspose1, transpose_1, kFixed, 256)                                  \
  ONE(kTranspose2, transpose_2, kFixed, 256)                                  \
  ONE(kTranspose4, transpose_4, kFixed, 256)                                  \
  ONE(kTranspose8, transpose_8, kFixed, 256)                                  \
  ONE(kTranspose16, transpose_16, kFixed, 256)                                \
  ONE(kCastScaled, cast_scaled, kElements, 0)                                 \
  ONE(kElementwiseFloat, elementwise_float, kElements, 0)                     \
  ONE(kElementwiseDouble, elementwise_double, kElements, 0)                   \
  ONE(kElementwiseInt, elementwise_int, kElements, 0)                         \
  ONE(kReduceFloat, reduce_float, kReduction, 0)                              \
  ONE(kReduceDouble, reduce_double, kReduction, 0)                            \
  ONE(kReduceInt, reduce_int, kReduction, 0)                                  \
  ONE(kGather, gather, kElements, 0)                                          \
  ONE(kScatter, scatter, kElements, 0)                                        \
  ONE(kScatterDouble, scatter_double, kElements, 0)

#define KEEL_VULKAN_TWICE(ONE, shader, module, shape, local_size) \
  ONE(shader, module, shape, local_size)                          \
  ONE(shader##16, module##_16, shape, local_size)

namespace keel::vulkan {

#define KEEL_VULKAN_ENUMERATOR(shader, module, shape, local_size) shader,
#define KEEL_VULKAN_ENUMERATOR_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_ENUMERATOR, __VA_ARGS__)
enum class Shader : uint32_t {
  KEEL_VULKAN_SHADERS(KEEL_VULKAN_ENUMERATOR, KEEL_VULKAN_ENUMERATOR_TWO)
};
#undef KEEL_VULKAN_ENUMERATOR_TWO
#undef KEEL_VULKAN_ENUMERATOR

#define KEEL_VULKAN_ONE(...) +1  // NOLINT(bugprone-macro-parentheses): a sum of the rows
#define KEEL_VULKAN_TWO(...) +2  // NOLINT(bugprone-macro-parentheses)
inline constexpr uint32_t kShaderCount = 0 KEEL_VULKAN_SHADERS(KEEL_VULKAN_ONE, KEEL_VULKAN_TWO);
#undef KEEL_VULKAN_TWO
#undef KEEL_VULKAN_ONE

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
