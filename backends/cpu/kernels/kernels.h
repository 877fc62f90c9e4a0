// SPDX-License-Identifier: Apache-2.0
// Loops over memory on the calling thread, each compiled for several instruction sets and chosen at
// run time (Highway). Pointers are host addresses of dense arrays of |count| elements; an output
// may equal an input, never partly overlap. Results do not depend on how a caller splits an array
// into pieces, unless stated.
#ifndef KEEL_BACKENDS_CPU_KERNELS_KERNELS_H_
#define KEEL_BACKENDS_CPU_KERNELS_KERNELS_H_

#include <keel/abi.h>

#include <cstdint>

namespace keel::cpu::kernels {

// The instruction set in use: "avx512", "avx2" or "generic".
const char* architecture();

// ---- elementwise (kernels_elementwise.cc) ------------------------------------

void add_f32(const float* a, const float* b, float* c, int64_t count);
void scale_f32(const float* x, float alpha, float* y, int64_t count);
void axpy_f32(const float* x, float alpha, const float* y, float* out, int64_t count);

// 16-bit floats (|dtype| KEEL_FLOAT16 or KEEL_BFLOAT16): computed in float32, rounded once.
void add_16(keel_dtype dtype, const void* a, const void* b, void* c, int64_t count);
void scale_16(keel_dtype dtype, const void* x, float alpha, void* y, int64_t count);
// x is bfloat16, y and out are float32.
void axpy_bf16(const void* x, float alpha, const float* y, float* out, int64_t count);

struct AdamwFactors {
  float grad_scale;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float m_correction;  // 1 / (1 - beta1^step)
  float v_correction;  // 1 / (1 - beta2^step)
  float epsilon;
  float learning_rate;
  float weight_decay;
};
void adamw_f32(const AdamwFactors& factors, const float* p, const float* g, const float* m,
               const float* v, float* p_out, float* m_out, float* v_out, int64_t count);

// ---- conversions (kernels_cast.cc) -------------------------------------------

using CastFunction = void (*)(const void* from, void* to, int64_t count);
// Returns NULL for a pair without a conversion. Rounds to nearest even; float to int32 truncates
// toward zero, saturates, and converts NaN to 0.
CastFunction cast_function(keel_dtype from, keel_dtype to);

// ---- activations (kernels_activation.cc) --------------------------------------

// The smaller of |high| and the larger of |low| and x; NaN stays NaN. Backward: dy where x is
// within the bounds, else 0, also where x is NaN.
void clamp_f32(const float* x, float low, float high, float* y, int64_t count);
void clamp_backward_f32(const float* x, const float* dy, float low, float high, float* dx,
                        int64_t count);

// x / (1 + exp(-x)), and y = silu(gate) * up with its gradients. Sigmoids below 2^-127 are returned
// as 0.
void silu_f32(const float* x, float* y, int64_t count);
void swiglu_f32(const float* gate, const float* up, float* y, int64_t count);
void swiglu_backward_f32(const float* gate, const float* up, const float* dy, float* dgate,
                         float* dup, int64_t count);

// gelu(x + bias); |bias| may be NULL. |erf| selects the form by erf instead of the form by tanh.
// Both are accurate to 1e-6; results below 1e-37 may be 0.
void bias_gelu_f32(bool erf, const float* x, const float* bias, float* y, int64_t count);
void bias_gelu_backward_f32(bool erf, const float* x, const float* bias, const float* dy, float* dx,
                            int64_t count);

// ---- rope (kernels_rope.cc) ----------------------------------------------------

// Rotates the |count| pairs (first, second) by the angles with the given cosines and sines, or by
// the negative angles if |inverse|.
void rotate_halves_f32(const float* first, const float* second, const float* cosine,
                       const float* sine, bool inverse, float* first_out, float* second_out,
                       int64_t count);
// Like rotate_halves_f32, with the two elements of a pair adjacent.
void rotate_pairs_f32(const float* x, const float* cosine, const float* sine, bool inverse,
                      float* y, int64_t count);

// ---- dropout (kernels_dropout.cc) ----------------------------------------------

// Element i of the whole tensor is kept, multiplied by |factor|, if word i % 4 of Philox4x32-10
// with |key| and counter |offset| + i / 4 is at least |threshold|; otherwise the element is
// dropped.
struct DropoutMask {
  uint64_t key;
  uint64_t offset;
  uint32_t threshold;
  float factor;

  // From attributes of those names.
  static DropoutMask of(double p, int64_t seed, int64_t offset);
};
// y = residual + kept * factor * (x + bias) for the elements from |first| on, a multiple of 4.
// |bias| (one value per element) and |residual| may be NULL.
void dropout_add_f32(const DropoutMask& mask, int64_t first, const float* x, const float* bias,
                     const float* residual, float* y, int64_t count);
// x *= kept * factor for the elements from any |first| on: 0 times NaN remains NaN.
void drop_f32(const DropoutMask& mask, int64_t first, float* x, int64_t count);
// softmax_slope_f32 of kept * factor * dp; then p *= kept * factor. p[0] and dp[0] are those of
// element |first|, which is any.
void dropped_softmax_slope_f32(const DropoutMask& mask, int64_t first, float* p, float row,
                               float scale, float* dp, int64_t count);

// ---- 8-bit floats (kernels_scaled.cc) -------------------------------------------

// The largest |x| as float bits, whose order places NaN above all numbers; 0 if |count| is 0.
uint32_t largest_magnitude_f32(const float* x, int64_t count);
// y = scale * x, rounded to float32 and then to |dtype|, KEEL_FLOAT8_E4M3FN or KEEL_FLOAT8_E5M2: to
// nearest even, saturating at the largest finite number.
void scale_to_float8(keel_dtype dtype, const float* x, float scale, uint8_t* y, int64_t count);
void float8_to_f32(keel_dtype dtype, const uint8_t* x, float* y, int64_t count);

// ---- reductions (kernels_reduce.cc) --------------------------------------------

// Sums blocks of 512 in float32 and the blocks in float64, in order.
double sum_f32(const float* x, int64_t count);
// y[j] = sum over i of x[i * stride + j], j in [0, columns): rows in blocks of 32 in float32,
// blocks in float64.
void sum_rows_f32(const float* x, int64_t rows, int64_t columns, int64_t stride, float* y);
// log of the sum of exp(x[j]).
double log_sum_exp_f32(const float* x, int64_t count);
struct LogSum {
  float value;
  float rest = 0;  // the value's rounding error
};
// out[j] = scale * exp(x[j] - log_sum), infinities included.
void scaled_softmax_f32(const float* x, const LogSum& log_sum, float scale, float* out,
                        int64_t count);
// The sum of x[j]^2, accumulated like sum_f32; squares are computed in float32.
double sum_of_squares_f32(const float* x, int64_t count);
// The sum of a[j] * b[j]. Elements beyond a multiple of the vector length are summed in float64.
double dot_f32(const float* a, const float* b, int64_t count);
// The largest of x, ignoring NaN; minus infinity if there is none.
float largest_f32(const float* x, int64_t count);
// The sum of exp(x[j] - shift); 0 where x and |shift| are minus infinity.
double sum_exp_f32(const float* x, float shift, int64_t count);

// ---- lines of a matrix and a vector (kernels_gemv.cc) --------------------------

// GEMV kernels. |lines| holds the addresses of |line_count| lines of |dtype|, KEEL_FLOAT32 or
// KEEL_BFLOAT16; at most kLinesDotted or kLinesAdded, the faster counts: memory delivers several
// lines together sooner than one after the other. The result of a line does not depend on the lines
// beside it.
inline constexpr int64_t kLinesDotted = 4;
inline constexpr int64_t kLinesAdded = 8;
// sums[n] += the sum over j of lines[n][j] * x[j]: blocks of 2048 in float32; the blocks, and the
// elements beyond a multiple of the vector length, in float64.
void dot_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, const float* x,
               int64_t count, double* sums);
// y[r][j] += the sum over n of lines[n][j] * factors[r][n], in order, for |rows| rows at distances
// |y_row| and |factor_row|.
void add_lines(keel_dtype dtype, const void* const* lines, int64_t line_count, int64_t rows,
               const float* factors, int64_t factor_row, float* y, int64_t y_row, int64_t count);

// ---- attention (kernels_attention.cc) ------------------------------------------

// x[j] = exp(x[j] - shift); returns the sum of the results.
float exp_and_sum_f32(float* x, float shift, int64_t count);
// dp[j] = p[j] * scale * (dp[j] - row).
void softmax_slope_f32(const float* p, float row, float scale, float* dp, int64_t count);
// out = of_a * a + of_b * b.
void blend_f32(const float* a, float of_a, const float* b, float of_b, float* out, int64_t count);

}  // namespace keel::cpu::kernels

#endif  // KEEL_BACKENDS_CPU_KERNELS_KERNELS_H_
