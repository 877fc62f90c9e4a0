// SPDX-License-Identifier: Apache-2.0
#version 460
// For CPU drivers. A subgroup is a SIMD register there, and what counts is how its
// lanes load: on lavapipe a load through an address takes about 40 ns (a loop over
// the lanes), from shared memory 13, a texel of four floats 6, that is 1.5 a
// register; a fused multiply-add and a shuffle to known lanes (one permutation) take
// 0.3, a broadcast 3. So a and b come as texels, and the workgroup is one subgroup that
// makes a tile of c: b's columns are spread over the lanes, a's rows too while
// they load, and a shuffle then gives each to all lanes. At 1024^3 and AVX2 that is
// 57 % of what multiply-adds in registers do; where every lane fetched its own rows of
// a, 33 %.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

// A view of the whole block behind a or b: RGBA32F, or R32F when kScalar.
layout(set = 0, binding = 0) uniform samplerBuffer g_a;
layout(set = 0, binding = 1) uniform samplerBuffer g_b;

const bool kSmall = (kVariantRest & 1) != 0;
// Rows or blocks do not begin at multiples of 16 bytes: texels of one float.
const bool kScalar = (kVariantRest & 2) != 0;
const uint kLanes = gl_WorkGroupSize.x;  // 4, 8 or 16: one subgroup
// Of the tile. 16 rows of 8 columns compile in 0.8 s rather than 1.4, but load b twice
// as often: 47 % at 1024^3, where its panel overflows a few sets of the cache.
const uint kRows = kSmall ? 16 : 32;
const uint kColumns = kSmall ? 4 : 8;  // of one lane
// Sums live on the stack; blocks of 4 x 2 stay in registers for four steps in depth.
const uint kBlockRows = 4;
const uint kBlockColumns = 2;
// A turn of the loop takes twice four steps, for it also merges every sum under the
// execution mask: 1.1 times as fast as once.
const uint kUnrolled = 2;

// Four floats from |element| on. Beyond the buffer, where only unused rows and
// columns lie, robustBufferAccess answers with any of its values or 0.
vec4 fetch_a(uint element) {
  if (!kScalar) return texelFetch(g_a, int(element / 4));
  const int at = int(element);
  return vec4(texelFetch(g_a, at).x, texelFetch(g_a, at + 1).x, texelFetch(g_a, at + 2).x,
              texelFetch(g_a, at + 3).x);
}

vec4 fetch_b(uint element) {
  if (!kScalar) return texelFetch(g_b, int(element / 4));
  const int at = int(element);
  return vec4(texelFetch(g_b, at).x, texelFetch(g_b, at + 1).x, texelFetch(g_b, at + 2).x,
              texelFetch(g_b, at + 3).x);
}

// Loops say [[unroll]] where a driver would keep the arrays in memory otherwise, 20
// times as slow.
void main() {
  const uint lane = gl_SubgroupInvocationID;
  const uint tiles_down = (m + kRows - 1) / kRows;
  const uint width = kColumns * kLanes;
  const uint tiles = tiles_down * ((n + width - 1) / width);
  // Down first: the panel of b stays in the core's cache while a passes by.
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    const uint row0 = tile % tiles_down * kRows;
    const uint column0 = tile / tiles_down * width + lane * kColumns;
    float sum[kRows][kColumns];
    [[unroll]] for (uint i = 0; i < kRows; ++i) {
      [[unroll]] for (uint j = 0; j < kColumns; ++j) sum[i][j] = 0.0;
    }
    uint depth = 0;
    for (; depth + 4 * kUnrolled <= k; depth += 4 * kUnrolled) {
      [[unroll]] for (uint u = 0; u < kUnrolled; ++u) {
        const uint from = depth + 4 * u;
        // A lane holds four steps of one row, or one step of four rows.
        vec4 held[kRows / kLanes];
        [[unroll]] for (uint q = 0; q < kRows / kLanes; ++q) {
          const uint row = row0 + q * kLanes;
          held[q] = fetch_a(a_offset + (kTransA ? a_index(row + lane / 4 * 4, from + lane % 4)
                                                : a_index(row + lane, from)));
        }
        float y[4][kColumns];
        if (kTransB) {
          [[unroll]] for (uint j = 0; j < kColumns; ++j) {
            const vec4 four = fetch_b(b_offset + b_index(from, column0 + j));
            [[unroll]] for (uint f = 0; f < 4; ++f) y[f][j] = four[f];
          }
        } else {
          [[unroll]] for (uint s = 0; s < 4; ++s) {
            [[unroll]] for (uint j = 0; j < kColumns; j += 4) {
              const vec4 four = fetch_b(b_offset + b_index(from + s, column0 + j));
              [[unroll]] for (uint f = 0; f < 4; ++f) y[s][j + f] = four[f];
            }
          }
        }
        [[unroll]] for (uint i0 = 0; i0 < kRows; i0 += kBlockRows) {
          float x[4][kBlockRows];
          [[unroll]] for (uint s = 0; s < 4; ++s) {
            [[unroll]] for (uint i = 0; i < kBlockRows; ++i) {
              const uint in_held = (i0 + i) % kLanes;
              const vec4 four = held[(i0 + i) / kLanes];
              x[s][i] = kTransA ? subgroupShuffle(four[i % 4], in_held / 4 * 4 + s)
                                : subgroupShuffle(four[s], in_held);
            }
          }
          [[unroll]] for (uint j0 = 0; j0 < kColumns; j0 += kBlockColumns) {
            [[unroll]] for (uint s = 0; s < 4; ++s) {
              [[unroll]] for (uint i = 0; i < kBlockRows; ++i) {
                [[unroll]] for (uint j = 0; j < kBlockColumns; ++j) {
                  sum[i0 + i][j0 + j] = fma(x[s][i], y[s][j0 + j], sum[i0 + i][j0 + j]);
                }
              }
            }
          }
        }
      }
    }
    // The last steps, fewer than a turn, by address.
    for (; depth < k; ++depth) {
      float y[kColumns];
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        y[j] = b.at[b_index(depth, min(column0 + j, n - 1))];
      }
      float held[kRows / kLanes];
      [[unroll]] for (uint q = 0; q < kRows / kLanes; ++q) {
        held[q] = a.at[a_index(min(row0 + q * kLanes + lane, m - 1), depth)];
      }
      [[unroll]] for (uint i = 0; i < kRows; ++i) {
        const float x = subgroupShuffle(held[i / kLanes], i % kLanes);
        [[unroll]] for (uint j = 0; j < kColumns; ++j) sum[i][j] = fma(x, y[j], sum[i][j]);
      }
    }
    [[unroll]] for (uint i = 0; i < kRows; ++i) {
      [[unroll]] for (uint j = 0; j < kColumns; ++j) {
        if (row0 + i < m && column0 + j < n) {
          const uint index = c_index(row0 + i, column0 + j);
          // matmul_begin has put beta c + bias there.
          c.at[index] = kBlend ? fma(alpha, sum[i][j], c.at[index]) : alpha * sum[i][j];
        }
      }
    }
  }
}
