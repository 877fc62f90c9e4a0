// SPDX-License-Identifier: Apache-2.0
// The kernels of this folder by family, for the host. Each target compiles FAMILY.cc as one unit
// (cmake/KeelSimt.cmake lists the families, too). The launch name is "keel_" plus the name below.
// If two kernels differ only in _warp and _block, the first processes a row per warp (kWarps
// rows a block), the second a row per block.
#ifndef KEEL_KERNELS_GPU_KERNELS_H_
#define KEEL_KERNELS_GPU_KERNELS_H_

#include <cstdint>

#define KEEL_SIMT_ATTENTION_KERNELS(X) \
  X(attention_f32_64)                  \
  X(attention_f32_128)                 \
  X(attention_f32_256)                 \
  X(attention_bf16_64)                 \
  X(attention_bf16_128)                \
  X(attention_bf16_256)                \
  X(attention_f16_64)                  \
  X(attention_f16_128)                 \
  X(attention_f16_256)                 \
  X(attention_merge)

#define KEEL_SIMT_ATTENTION_BACKWARD_KERNELS(X) \
  X(attention_dq_f32_64)                        \
  X(attention_dq_f32_128)                       \
  X(attention_dq_f32_256)                       \
  X(attention_dk_dv_f32_64)                     \
  X(attention_dk_dv_f32_128)                    \
  X(attention_dk_dv_f32_256)                    \
  X(attention_delta_f32)                        \
  X(attention_dq_bf16_64)                       \
  X(attention_dq_bf16_128)                      \
  X(attention_dq_bf16_256)                      \
  X(attention_dk_dv_bf16_64)                    \
  X(attention_dk_dv_bf16_128)                   \
  X(attention_dk_dv_bf16_256)                   \
  X(attention_delta_bf16)                       \
  X(attention_dq_f16_64)                        \
  X(attention_dq_f16_128)                       \
  X(attention_dq_f16_256)                       \
  X(attention_dk_dv_f16_64)                     \
  X(attention_dk_dv_f16_128)                    \
  X(attention_dk_dv_f16_256)                    \
  X(attention_delta_f16)

#define KEEL_SIMT_ELEMENTS_KERNELS(X) \
  X(cast_f32_bf16)                    \
  X(cast_bf16_f32)                    \
  X(cast_f32_f16)                     \
  X(cast_f16_f32)                     \
  X(cast_f16_bf16)                    \
  X(cast_bf16_f16)                    \
  X(cast_f32_i32)                     \
  X(cast_i32_f32)                     \
  X(add_f32)                          \
  X(add_f16)                          \
  X(add_bf16)                         \
  X(mul_f32)                          \
  X(mul_f16)                          \
  X(mul_bf16)                         \
  X(scale_f32)                        \
  X(scale_f16)                        \
  X(scale_bf16)                       \
  X(axpy_f32)                         \
  X(axpy_bf16)                        \
  X(adamw)                            \
  X(embedding_2)                      \
  X(embedding_4)                      \
  X(embedding_16)                     \
  X(embedding_backward_f32)           \
  X(embedding_backward_bf16)          \
  X(embedding_backward_f16)           \
  X(adamw_bf16)                       \
  X(adamw_f16)                        \
  X(clamp_f32)                        \
  X(clamp_backward_f32)               \
  X(clamp_bf16)                       \
  X(clamp_backward_bf16)              \
  X(clamp_f16)                        \
  X(clamp_backward_f16)               \
  X(swiglu_f32)                       \
  X(swiglu_backward_f32)              \
  X(bias_gelu_f32)                    \
  X(bias_gelu_backward_f32)           \
  X(swiglu_bf16)                      \
  X(swiglu_backward_bf16)             \
  X(bias_gelu_bf16)                   \
  X(bias_gelu_backward_bf16)          \
  X(swiglu_f16)                       \
  X(swiglu_backward_f16)              \
  X(bias_gelu_f16)                    \
  X(bias_gelu_backward_f16)           \
  X(rope_f32)                         \
  X(rope_bf16)                        \
  X(rope_f16)                         \
  X(dropout_f32)                      \
  X(dropout_bf16)                     \
  X(dropout_f16)                      \
  X(transpose_1)                      \
  X(transpose_2)                      \
  X(transpose_4)                      \
  X(transpose_8)                      \
  X(transpose_16)                     \
  X(transpose_tiles_1)                \
  X(transpose_tiles_2)                \
  X(transpose_tiles_4)                \
  X(transpose_tiles_8)                \
  X(transpose_tiles_16)               \
  X(cast_scaled_f32_e4m3)             \
  X(cast_scaled_f32_e5m2)             \
  X(cast_scaled_bf16_e4m3)            \
  X(cast_scaled_bf16_e5m2)            \
  X(cast_scaled_f16_e4m3)             \
  X(cast_scaled_f16_e5m2)             \
  X(cast_scaled_e4m3_f32)             \
  X(cast_scaled_e5m2_f32)             \
  X(cast_scaled_e4m3_bf16)            \
  X(cast_scaled_e5m2_bf16)            \
  X(cast_scaled_e4m3_f16)             \
  X(cast_scaled_e5m2_f16)             \
  X(cast_scaled_join)

#define KEEL_SIMT_MATMUL_KERNELS(X) \
  X(matmul_f32)                     \
  X(matmul_bf16)                    \
  X(matmul_bf16_f32)                \
  X(matmul_f16)                     \
  X(matmul_f16_f32)                 \
  X(matmul_end_f32)                 \
  X(matmul_end_bf16)                \
  X(matmul_end_bf16_f32)            \
  X(matmul_end_f16)                 \
  X(matmul_end_f16_f32)             \
  X(batched_matmul_f32)             \
  X(batched_matmul_bf16)            \
  X(batched_matmul_bf16_f32)        \
  X(batched_matmul_f16)             \
  X(batched_matmul_f16_f32)

#define KEEL_SIMT_REDUCTIONS_KERNELS(X) \
  X(sum_rows_f32_warp)                  \
  X(sum_rows_f32_block)                 \
  X(sum_columns_f32)                    \
  X(sum_rows_bf16_warp)                 \
  X(sum_rows_bf16_block)                \
  X(sum_columns_bf16)                   \
  X(sum_rows_f16_warp)                  \
  X(sum_rows_f16_block)                 \
  X(sum_columns_f16)                    \
  X(norm_f32_warp)                      \
  X(norm_f32_block)                     \
  X(norm_backward_f32_warp)             \
  X(norm_backward_f32_block)            \
  X(norm_columns_f32)                   \
  X(norm_bf16_warp)                     \
  X(norm_bf16_block)                    \
  X(norm_backward_bf16_warp)            \
  X(norm_backward_bf16_block)           \
  X(norm_columns_bf16)                  \
  X(norm_f16_warp)                      \
  X(norm_f16_block)                     \
  X(norm_backward_f16_warp)             \
  X(norm_backward_f16_block)            \
  X(norm_columns_f16)                   \
  X(softmax_f32_warp)                   \
  X(softmax_f32_block)                  \
  X(softmax_backward_f32_warp)          \
  X(softmax_backward_f32_block)         \
  X(softmax_bf16_warp)                  \
  X(softmax_bf16_block)                 \
  X(softmax_backward_bf16_warp)         \
  X(softmax_backward_bf16_block)        \
  X(softmax_f16_warp)                   \
  X(softmax_f16_block)                  \
  X(softmax_backward_f16_warp)          \
  X(softmax_backward_f16_block)         \
  X(cross_entropy_f32_warp)             \
  X(cross_entropy_f32_block)            \
  X(cross_entropy_bf16_warp)            \
  X(cross_entropy_bf16_block)           \
  X(cross_entropy_f16_warp)             \
  X(cross_entropy_f16_block)            \
  X(cross_entropy_backward_f32_warp)    \
  X(cross_entropy_backward_f32_block)   \
  X(cross_entropy_backward_bf16_warp)   \
  X(cross_entropy_backward_bf16_block)  \
  X(cross_entropy_backward_f16_warp)    \
  X(cross_entropy_backward_f16_block)   \
  X(sum_of_squares_f32)                 \
  X(sum_of_squares_bf16)                \
  X(sum_of_squares_f16)                 \
  X(sum_of_squares_join)                \
  X(clip_f32)                           \
  X(clip_bf16)                          \
  X(clip_f16)                           \
  X(shard_loss_f32_warp)                \
  X(shard_loss_f32_block)               \
  X(shard_loss_bf16_warp)               \
  X(shard_loss_bf16_block)              \
  X(shard_loss_f16_warp)                \
  X(shard_loss_f16_block)               \
  X(shard_gradient_f32_warp)            \
  X(shard_gradient_f32_block)           \
  X(shard_gradient_bf16_warp)           \
  X(shard_gradient_bf16_block)          \
  X(shard_gradient_f16_warp)            \
  X(shard_gradient_f16_block)

#define KEEL_SIMT_DOUBLES_KERNELS(X) \
  X(function_f64)                    \
  X(reduce_f64)                      \
  X(scatter_add_f64)

#define KEEL_SIMT_FUNCTIONS_KERNELS(X) \
  X(function_f32)                      \
  X(function_i64)

#define KEEL_SIMT_TENSORS_KERNELS(X) \
  X(reduce_f32)                      \
  X(reduce_i64)                      \
  X(gather)                          \
  X(scatter)                         \
  X(scatter_add)

// The families of every chip, and all, with the one of chips with 64-bit floats: a compiler may
// refuse a whole module for one such float.
#define KEEL_SIMT_COMMON_FAMILIES(X)                          \
  X(attention, KEEL_SIMT_ATTENTION_KERNELS)                   \
  X(attention_backward, KEEL_SIMT_ATTENTION_BACKWARD_KERNELS) \
  X(elements, KEEL_SIMT_ELEMENTS_KERNELS)                     \
  X(matmul, KEEL_SIMT_MATMUL_KERNELS)                         \
  X(reductions, KEEL_SIMT_REDUCTIONS_KERNELS)                 \
  X(functions, KEEL_SIMT_FUNCTIONS_KERNELS)                   \
  X(tensors, KEEL_SIMT_TENSORS_KERNELS)
#define KEEL_SIMT_FAMILIES(X)  \
  KEEL_SIMT_COMMON_FAMILIES(X) \
  X(doubles, KEEL_SIMT_DOUBLES_KERNELS)

namespace keel::simt {

#define KEEL_SIMT_COUNT(family, kernels) +1
inline constexpr uint32_t kFamilies = KEEL_SIMT_FAMILIES(KEEL_SIMT_COUNT);
#undef KEEL_SIMT_COUNT

// Ordered by family.
enum class KernelId : uint32_t {
#define KEEL_SIMT_ID(name) name,
#define KEEL_SIMT_IDS(family, kernels) kernels(KEEL_SIMT_ID)
  KEEL_SIMT_FAMILIES(KEEL_SIMT_IDS)
#undef KEEL_SIMT_IDS
#undef KEEL_SIMT_ID
      kCount
};

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_KERNELS_H_
