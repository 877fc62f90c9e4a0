// SPDX-License-Identifier: Apache-2.0
// The kernels' argument structs, passed by value: filled in by the host, read by the device. Plain
// numbers only, so that every compiler uses one layout.
#ifndef KEEL_KERNELS_GPU_ARGUMENTS_H_
#define KEEL_KERNELS_GPU_ARGUMENTS_H_

#include <cstdint>

namespace keel::simt {

// A device address.
using Address = uint64_t;

// Threads per block; every kernel is compiled for this size.
inline constexpr uint32_t kThreads = 256;
// Threads that run in step, for which a target sets KEEL_SIMT_WARP: 32, or 64 on some chips of AMD.
// On the host, the kernels that a launch is for may have another width: kernels take any number of
// blocks, so kWarps only sizes grids there.
#ifndef KEEL_SIMT_WARP
#define KEEL_SIMT_WARP 32
#endif
inline constexpr uint32_t kWarp = KEEL_SIMT_WARP;
inline constexpr uint32_t kWarps = kThreads / kWarp;

// |is_aligned|: all tensors begin at a multiple of 16 bytes.
struct ElementwiseArguments {
  Address in[2];
  Address out;
  uint64_t count;  // elements
  float alpha;
  uint32_t is_aligned;
};

struct AdamwArguments {
  Address p, g, m, v;
  Address p_out, m_out, v_out;
  uint64_t count;
  float learning_rate, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float epsilon, weight_decay, grad_scale;
  float m_correction;  // 1 / (1 - beta1^step)
  float v_correction;  // 1 / (1 - beta2^step)
  uint32_t is_aligned;
  uint32_t reserved;
};

// y[row], float32, is the sum of a row. Rows begin every |columns| elements, and the last row may
// be short: |count| elements in total.
struct SumRowsArguments {
  Address x, y;
  uint64_t rows, columns, count;
};

// y[slice, column] is the sum over the rows of one slice; the grid's y indexes slices.
struct SumColumnsArguments {
  Address x, y;
  uint64_t rows, columns, slice_rows;
};

// Each element of c belongs to one tile; blocks of the grid's x are tiles, in row-major order.
// Strides are in elements; usually one stride of each matrix is 1 and determines its layout.
struct MatmulArguments {
  Address a, b, bias, c;  // bias 0: none
  uint64_t m, n, k;
  uint64_t a_row, a_column;  // strides of a as multiplied, [m,k]
  uint64_t b_row, b_column;  // strides of b as multiplied, [k,n]
  uint64_t c_row;
  float alpha, beta;  // beta 0: c is not read
  uint32_t activation;
  uint32_t reserved;
};
inline constexpr uint32_t kMatmulTile = 64;
// Applied to the sum before rounding; numbered as in the operator's attribute.
enum : uint32_t { kNoActivation, kGeluByTanh, kGeluByErf, kSilu };

// |batch| products like |first|, whose matrices are the given number of elements apart; the grid's
// y indexes products.
struct BatchedMatmulArguments {
  MatmulArguments first;
  uint64_t batch;
  uint64_t a_batch, b_batch, c_batch;
};

// The epilogue of a matmul whose products were summed elsewhere: c = activation(sums + beta * c +
// bias). c may alias sums. |is_aligned|: rows, columns and addresses are multiples of 4 elements.
struct MatmulEndArguments {
  Address sums, bias, c;  // bias 0: none
  uint64_t rows, columns;
  uint64_t sums_row, c_row;
  float beta;  // 0: c is not read
  uint32_t activation;
  uint32_t is_aligned;
  uint32_t reserved;
};

// |first|: the index of the table's row 0. |width|: row length in the kernel's units.
struct EmbeddingArguments {
  Address table, indices, out;
  uint64_t table_rows, width, count;
  int64_t first;
};

// |dtable| must be zeroed before.
struct EmbeddingBackwardArguments {
  Address dout, indices, dtable;
  uint64_t table_rows, width, count;
  int64_t first;
};

struct CrossEntropyArguments {
  Address logits, labels, loss, logsumexp;
  uint64_t rows, columns;
};

struct CrossEntropyBackwardArguments {
  Address logits, labels, logsumexp, dlogits;
  uint64_t rows, columns;
  float scale;
  uint32_t reserved;
};

// layer_norm, or rms_norm if |mean| is 0. |beta| 0: none.
struct NormArguments {
  Address x, gamma, beta, y, mean, rstd;
  uint64_t rows, columns;
  float eps;
  uint32_t reserved;
};

// |mean| 0: rms_norm.
struct NormBackwardArguments {
  Address dy, x, gamma, mean, rstd, dx;
  uint64_t rows, columns;
};

// Sums over the rows of one slice, [slice, column]; the grid's y indexes slices. |mean| and |dbeta|
// 0: rms_norm.
struct NormColumnsArguments {
  Address dy, x, mean, rstd, dgamma, dbeta;
  uint64_t rows, columns, slice_rows;
};

// Matrices of |height| rows. The mask, 0 for none, repeats every |mask_rows| rows.
struct SoftmaxArguments {
  Address x, mask, y;
  uint64_t rows, columns, height, mask_rows;
  float scale;
  uint32_t causal;
};

struct SoftmaxBackwardArguments {
  Address y, dy, dx;
  uint64_t rows, columns;
  float scale;
  uint32_t reserved;
};

// A mask, whose rows are dense. |data| is 0 without a mask, or for an empty one. Strides are in
// elements, and 0 where one row serves all. |queries| and |keys| of each sequence are not hidden.
struct AttentionMask {
  Address data;
  int64_t sequence_stride, head_stride, query_stride;
  int64_t queries, keys;
};

// Dropout of the weights. A query of a head has |counters| counters of Philox; 0: no dropout. A
// weight is kept, multiplied by |factor|, if its word is at least |threshold|.
struct AttentionDropout {
  uint64_t seed, offset, counters;
  float factor;
  uint32_t threshold;
};

// Tensors are dense; cu_seqlens 0: one sequence.
struct AttentionProblem {
  Address q, k, v, cu_seqlens_q, cu_seqlens_k;
  uint64_t sequences, tokens_q, tokens_k, heads, kv_heads, width;
  float scale;
  uint32_t causal;
  AttentionMask mask;
  AttentionDropout dropout;
};
// Tokens per block, and rows in shared memory for one summation step.
inline constexpr uint32_t kAttentionTile = 64;
inline constexpr uint32_t kAttentionRows = 16;

// The grid's x indexes tiles of queries, y the heads.
struct AttentionArguments {
  AttentionProblem problem;
  Address out, logsumexp;
};

// |delta|: [heads, tokens_q], written by the first kernel for the later kernels. The grid's y
// indexes heads; for dk and dv, key heads.
struct AttentionBackwardArguments {
  AttentionProblem problem;
  Address out, dout, logsumexp, delta, dq, dk, dv;
};

struct AttentionMergeArguments {
  Address out_a, lse_a, out_b, lse_b, out, logsumexp;
  uint64_t tokens, heads, width;
};

// Sums the squares of |count| elements in chunks, one block each. With several chunks, partial
// results go to |sums| and |flags|, and sum_of_squares_join combines them into the outputs.
struct SumOfSquaresArguments {
  Address x, sums, flags;
  uint64_t count, chunk, chunks;
  Address before;  // 0: none
  Address total, found;
};

struct ClipArguments {
  Address g, sum_of_squares, g_out;
  uint64_t count;
  float max_norm;
  uint32_t is_aligned;
};

// |first|: the vocabulary entry of the first column.
struct CrossEntropyShardArguments {
  Address logits, labels, max, sum_exp, target;
  uint64_t rows, columns;
  int64_t first;
};

struct CrossEntropyShardBackwardArguments {
  Address logits, labels, logsumexp, dlogits;
  uint64_t rows, columns;
  int64_t first;
  float scale;
  uint32_t reserved;
};

// Rows of y have |width| elements, rows of x twice as many. |is_aligned|: all rows begin at
// multiples of 16 bytes.
struct SwigluArguments {
  Address x, y;
  uint64_t rows, width;
  uint32_t is_aligned;
  uint32_t reserved;
};

struct SwigluBackwardArguments {
  Address x, dy, dx;
  uint64_t rows, width;
  uint32_t is_aligned;
  uint32_t reserved;
};

// |out| is y, or dx if |dy| is set. |bias| 0: none. |is_aligned|: all rows begin at multiples of 16
// bytes; without a bias, all tensors do.
struct ClampArguments {
  Address x, dy, out;  // |dy| 0: forward
  uint64_t count;
  float low, high;
  uint32_t is_aligned;
  uint32_t unused;
};

struct BiasGeluArguments {
  Address x, bias, dy, out;
  uint64_t count, columns;
  uint32_t by_erf;
  uint32_t is_aligned;
};

// x is [tokens, heads, 2 * half]. |pairs|: the two elements of a pair are adjacent, else |half|
// apart.
struct RopeArguments {
  Address x, cosines, sines, positions, y;
  uint64_t tokens, heads, half, table_rows;
  uint32_t pairs;
  uint32_t inverse;
};

// y = residual + kept * factor * (x + bias), bias by columns; |bias| and |residual| 0: none. An
// element is kept if its word of Philox4x32-10 is at least |threshold|. |is_aligned|: x, residual
// and y begin at multiples of 16 bytes.
struct DropoutArguments {
  Address x, bias, residual, y;
  uint64_t count, columns;
  uint64_t seed, offset;
  float factor;
  uint32_t threshold;
  uint32_t is_aligned;
  uint32_t reserved;
};

// An axis of a transposition: its strides in x and in y, in units.
struct TransposeAxis {
  uint64_t extent, from, to;
};
inline constexpr uint32_t kTransposeOuter = 6;
// Side length of a tile, in units.
inline constexpr uint32_t kTransposeTile = 32;

// |column| is y's innermost axis. In tiled kernels, |row| is any other axis; else the axis next to
// |column|. |outer| lists the remaining axes, slowest first. |count| is in units.
struct TransposeArguments {
  Address x, y;
  TransposeAxis column, row;
  TransposeAxis outer[kTransposeOuter];
  uint64_t count, tiles;
  uint32_t outer_count;
  uint32_t reserved;
};

// y = scale * x, in chunks, one block each. With several chunks, the largest magnitudes go to
// |largest|, and cast_scaled_join reduces them to |amax|. Rows of x have |columns| elements and are
// |gap| apart, modulo 2^64 (negative for overlapping rows); |gap| 0: x is dense. |is_aligned|: x
// and y begin at multiples of 16 bytes, and row length and distance are multiples of
// kCastScaledLanes elements.
struct CastScaledArguments {
  Address x, scale, y, amax, largest;
  uint64_t columns, gap;
  uint64_t count, chunk, chunks;
  uint32_t is_aligned;
  uint32_t reserved;
};
inline constexpr int kCastScaledLanes = 8;

}  // namespace keel::simt

#endif  // KEEL_KERNELS_GPU_ARGUMENTS_H_
