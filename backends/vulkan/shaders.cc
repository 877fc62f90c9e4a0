// SPDX-License-Identifier: Apache-2.0
#include "backends/vulkan/shaders.h"

// All shaders, in the order of Shader: enumerator, module, WorkgroupShape and local size. TWO is
// for a shader that is compiled for two widths: its row stands for module and module_16, whose
// enumerators are adjacent.
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
  ONE(kCastScaled, cast_scaled, kElements, 0)

#define KEEL_VULKAN_TWICE(ONE, shader, module, shape, local_size) \
  ONE(shader, module, shape, local_size)                          \
  ONE(shader##16, module##_16, shape, local_size)

// Embeds module NAME from keel_vulkan_begin_NAME to keel_vulkan_end_NAME. KEEL_VULKAN_MODULES is
// the folder of the modules.
#define KEEL_VULKAN_NAME(shader, module, shape, local_size) "," #module
#define KEEL_VULKAN_NAME_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_NAME, __VA_ARGS__)
asm(R"(
  .pushsection .rodata
  .irp name )" KEEL_VULKAN_SHADERS(KEEL_VULKAN_NAME, KEEL_VULKAN_NAME_TWO) R"(
  .balign 4
keel_vulkan_begin_\name:
  .incbin ")" KEEL_VULKAN_MODULES R"(/\name\().spv"
keel_vulkan_end_\name:
  .globl keel_vulkan_begin_\name
  .globl keel_vulkan_end_\name
  .hidden keel_vulkan_begin_\name
  .hidden keel_vulkan_end_\name
  .endr
  .popsection
)");

#define KEEL_VULKAN_DECLARE(shader, module, shape, local_size) \
  extern "C" const uint32_t keel_vulkan_begin_##module[];      \
  extern "C" const uint32_t keel_vulkan_end_##module[];
#define KEEL_VULKAN_DECLARE_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_DECLARE, __VA_ARGS__)
KEEL_VULKAN_SHADERS(KEEL_VULKAN_DECLARE, KEEL_VULKAN_DECLARE_TWO)

namespace keel::vulkan {

namespace {

struct Module {
  Shader shader;
  const uint32_t* begin;
  const uint32_t* end;
  WorkgroupShape shape;
  uint32_t local_size;
};

#define KEEL_VULKAN_ROW(shader, module, shape, local_size)                                      \
  {Shader::shader, keel_vulkan_begin_##module, keel_vulkan_end_##module, WorkgroupShape::shape, \
   local_size},
#define KEEL_VULKAN_ROW_TWO(...) KEEL_VULKAN_TWICE(KEEL_VULKAN_ROW, __VA_ARGS__)
constexpr Module kModules[] = {KEEL_VULKAN_SHADERS(KEEL_VULKAN_ROW, KEEL_VULKAN_ROW_TWO)};

constexpr bool in_order_of_shader() {
  uint32_t index = 0;
  for (const Module& module : kModules) {
    if (module.shader != static_cast<Shader>(index++)) return false;
  }
  return index == kShaderCount;
}
static_assert(in_order_of_shader());

}  // namespace

ShaderCode shader_code(Shader shader) {
  const Module& module = kModules[static_cast<uint32_t>(shader)];
  return {module.begin, static_cast<size_t>(module.end - module.begin), module.shape,
          module.local_size};
}

}  // namespace keel::vulkan
