// SPDX-License-Identifier: Apache-2.0
// What the kernels of this folder are given: one struct each, by value, as the host fills it in
// and the device reads it. Plain numbers, of one layout for every compiler.
#ifndef KEEL_BACKENDS_SIMT_ARGUMENTS_H_
#define KEEL_BACKENDS_SIMT_ARGUMENTS_H_

#include <cstdint>

namespace keel::simt {

// A device address.
using Address = uint64_t;

// Threads of a block; the same for all kernels, and what each is compiled for.
inline constexpr uint32_t kThreads = 256;
inline constexpr uint32_t kWarp = 32;
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

// y[row], float32, is the sum of a row. Rows begin every |columns| elements, and the last may be
// short: |count| elements in all.
struct SumRowsArguments {
  Address x, y;
  uint64_t rows, columns, count;
};

// y[slice, column] is the sum over the rows of one slice; the grid's y is the slices.
struct SumColumnsArguments {
  Address x, y;
  uint64_t rows, columns, slice_rows;
};

// An element of c is a tile's alone: blocks of the grid's x are tiles, row by row. Strides are in
// elements; one of each matrix's is 1 as a rule, and which one says how it is stored.
struct MatmulArguments {
  Address a, b, bias, c;  // bias 0: none
  uint64_t m, n, k;
  uint64_t a_row, a_column;  // of a as it is multiplied, [m,k]
  uint64_t b_row, b_column;  // [k,n]
  uint64_t c_row;
  float alpha, beta;  // beta 0: c is not read
  uint32_t activation;
  uint32_t reserved;
};
inline constexpr uint32_t kMatmulTile = 64;
// Of the sum, before it is rounded; by the numbers of the operator's attribute.
enum : uint32_t { kNoActivation, kGeluByTanh, kGeluByErf, kSilu };

// |batch| products like the first one, matrices the given number of elements apart; the grid's y
// walks over them.
struct BatchedMatmulArguments {
  MatmulArguments first;
  uint64_t batch;
  uint64_t a_batch, b_batch, c_batch;
};

// What is left of matmul where the products were summed elsewhere: c = activation(sums + beta * c +
// bias). c may be the sums. |is_aligned|: rows, columns and addresses are of multiples of 4
// elements.
struct MatmulEndArguments {
  Address sums, bias, c;  // bias 0: none
  uint64_t rows, columns;
  uint64_t sums_row, c_row;
  float beta;  // 0: c is not read
  uint32_t activation;
  uint32_t is_aligned;
  uint32_t reserved;
};

// |first|: the index that row 0 of the table has. |width|: of a row, in the kernel's units.
struct EmbeddingArguments {
  Address table, indices, out;
  uint64_t table_rows, width, count;
  int64_t first;
};

// |dtable| is all zeroes before.
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

// layer_norm, and rms_norm where |mean| is 0. |beta| 0: none.
struct NormArguments {
  Address x, gamma, beta, y, mean, rstd;
  uint64_t rows, columns;
  float eps;
  uint32_t reserved;
};

// |mean| 0: rms_norm's.
struct NormBackwardArguments {
  Address dy, x, gamma, mean, rstd, dx;
  uint64_t rows, columns;
};

// The sums over the rows of one slice, [slice, column]; the grid's y is the slices. |mean| and
// |dbeta| 0: rms_norm's.
struct NormColumnsArguments {
  Address dy, x, mean, rstd, dgamma, dbeta;
  uint64_t rows, columns, slice_rows;
};

// Matrices of |height| rows. The mask, 0 for none, has |mask_rows| and begins anew after them.
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

// Tensors are dense; cu_seqlens 0: one sequence.
struct AttentionProblem {
  Address q, k, v, cu_seqlens_q, cu_seqlens_k;
  uint64_t sequences, tokens_q, tokens_k, heads, kv_heads, width;
  float scale;
  uint32_t causal;
};
// Tokens of a block, and rows that shared memory holds to be summed.
inline constexpr uint32_t kAttentionTile = 64;
inline constexpr uint32_t kAttentionRows = 16;

// The grid's x is tiles of queries, its y the heads.
struct AttentionArguments {
  AttentionProblem problem;
  Address out, logsumexp;
};

// |delta|: [heads, tokens_q], made by the first kernel for the others. The grid's y is the heads,
// of keys for dk and dv.
struct AttentionBackwardArguments {
  AttentionProblem problem;
  Address out, dout, logsumexp, delta, dq, dk, dv;
};

struct AttentionMergeArguments {
  Address out_a, lse_a, out_b, lse_b, out, logsumexp;
  uint64_t tokens, heads, width;
};

// The squares of |count| elements in chunks, a block each. Of several chunks the partial results
// go to |sums| and |flags|, from which sum_of_squares_join makes the outputs.
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

// The first column is the entry |first| of the whole vocabulary.
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

// Rows of y are |width| long, those of x twice that. |is_aligned|: all rows begin at multiples of
// 16 bytes.
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

// |out| is y, or dx where there is |dy|. |bias| 0: none. |is_aligned|: all rows begin at multiples
// of 16 bytes; without a bias, all tensors do.
struct BiasGeluArguments {
  Address x, bias, dy, out;
  uint64_t count, columns;
  uint32_t by_erf;
  uint32_t is_aligned;
};

// x is [tokens, heads, 2 * half]. |pairs|: a pair's two are neighbours, else |half| apart.
struct RopeArguments {
  Address x, cosines, sines, positions, y;
  uint64_t tokens, heads, half, table_rows;
  uint32_t pairs;
  uint32_t inverse;
};

// y = residual + kept * factor * (x + bias), bias by columns; |bias| and |residual| 0: none. An
// element is kept where its word of Philox4x32-10 is not below |threshold|. |is_aligned|: x,
// residual and y begin at multiples of 16 bytes.
struct DropoutArguments {
  Address x, bias, residual, y;
  uint64_t count, columns;
  uint64_t seed, offset;
  float factor;
  uint32_t threshold;
  uint32_t is_aligned;
  uint32_t reserved;
};

// An axis of a transposition: its steps in x and in y, in units.
struct TransposeAxis {
  uint64_t extent, from, to;
};
inline constexpr uint32_t kTransposeOuter = 6;
// Units along a side of a tile.
inline constexpr uint32_t kTransposeTile = 32;

// |column| is y's innermost axis. In tiles, |row| is any other; else the next to it, and |outer|
// are those before, slowest first. |count|: units.
struct TransposeArguments {
  Address x, y;
  TransposeAxis column, row;
  TransposeAxis outer[kTransposeOuter];
  uint64_t count, tiles;
  uint32_t outer_count;
  uint32_t reserved;
};

// y = scale * x, in chunks, a block each. Of several chunks the largest magnitudes go to |largest|,
// of which cast_scaled_join makes |amax|. Rows of x are |columns| long and |gap| apart, modulo
// 2^64: less than nothing where they overlap; |gap| 0: it is dense. |is_aligned|: x and y begin at
// multiples of 16 bytes, and rows are multiples of kCastScaledLanes elements long and apart.
struct CastScaledArguments {
  Address x, scale, y, amax, largest;
  uint64_t columns, gap;
  uint64_t count, chunk, chunks;
  uint32_t is_aligned;
  uint32_t reserved;
};
inline constexpr int kCastScaledLanes = 8;

}  // namespace keel::simt

#endif  // KEEL_BACKENDS_SIMT_ARGUMENTS_H_
