#version 460
// For CPU drivers. A subgroup is a SIMD register there, and what counts is how its
// lanes load: on lavapipe a load through an address takes about 40 ns (a loop over
// the lanes), from shared memory 13, a texel of four floats 6, that is 1.5 a
// register; a fused multiply-add takes 0.3 and a subgroup broadcast 3. So a and b
// come as texels, and each lane makes 8 x 16 elements of c on its own, sharing
// nothing: 24 fetches for 512 multiply-adds of four steps in depth.
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"

layout(local_size_x = 8, local_size_y = 1, local_size_z = 1) in;

// A view of the whole block behind a or b: RGBA32F, or R32F when kScalar.
layout(set = 0, binding = 0) uniform samplerBuffer g_a;
layout(set = 0, binding = 1) uniform samplerBuffer g_b;

// The eight lanes lie kLanesDown x (8 / kLanesDown) over the workgroup's tile.
const uint kLanesDown = 1u << (kVariantRest & 3);
const uint kLanesAcross = 8 / kLanesDown;
// Rows or blocks do not begin at multiples of 16 bytes: texels of one float.
const bool kScalar = (kVariantRest & 4) != 0;
const uint kRows = 8;  // of one lane; twice as many run 1.2 times as fast, but compile for 2 s
const uint kColumns = 16;

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

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const uint tiles_down = (m + kRows * kLanesDown - 1) / (kRows * kLanesDown);
  const uint tiles = tiles_down * ((n + kColumns * kLanesAcross - 1) / (kColumns * kLanesAcross));
  // Down first: the panel of b stays in the core's cache while a passes by.
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    const uint row0 = (tile % tiles_down * kLanesDown + lane / kLanesAcross) * kRows;
    const uint column0 = (tile / tiles_down * kLanesAcross + lane % kLanesAcross) * kColumns;
    float sum[kRows][kColumns];
    for (uint i = 0; i < kRows; ++i) {
      for (uint j = 0; j < kColumns; ++j) sum[i][j] = 0.0;
    }
    uint depth = 0;
    // Four steps at a time and no more: unrolled further, the compiler moves all the
    // fetches to the front and spills them.
    for (; depth + 4 <= k; depth += 4) {
      float x[4][kRows];
      float y[4][kColumns];
      if (kTransA) {
        for (uint s = 0; s < 4; ++s) {
          for (uint i = 0; i < kRows; i += 4) {
            const vec4 four = fetch_a(a_offset + a_index(row0 + i, depth + s));
            for (uint f = 0; f < 4; ++f) x[s][i + f] = four[f];
          }
        }
      } else {
        for (uint i = 0; i < kRows; ++i) {
          const vec4 four = fetch_a(a_offset + a_index(row0 + i, depth));
          for (uint f = 0; f < 4; ++f) x[f][i] = four[f];
        }
      }
      if (kTransB) {
        for (uint j = 0; j < kColumns; ++j) {
          const vec4 four = fetch_b(b_offset + b_index(depth, column0 + j));
          for (uint f = 0; f < 4; ++f) y[f][j] = four[f];
        }
      } else {
        for (uint s = 0; s < 4; ++s) {
          for (uint j = 0; j < kColumns; j += 4) {
            const vec4 four = fetch_b(b_offset + b_index(depth + s, column0 + j));
            for (uint f = 0; f < 4; ++f) y[s][j + f] = four[f];
          }
        }
      }
      for (uint i = 0; i < kRows; ++i) {
        for (uint j = 0; j < kColumns; ++j) {
          for (uint s = 0; s < 4; ++s) sum[i][j] = fma(x[s][i], y[s][j], sum[i][j]);
        }
      }
    }
    // The last one to three steps, by address.
    for (; depth < k; ++depth) {
      float y[kColumns];
      for (uint j = 0; j < kColumns; ++j) y[j] = b.at[b_index(depth, min(column0 + j, n - 1))];
      for (uint i = 0; i < kRows; ++i) {
        const float x = a.at[a_index(min(row0 + i, m - 1), depth)];
        for (uint j = 0; j < kColumns; ++j) sum[i][j] = fma(x, y[j], sum[i][j]);
      }
    }
    for (uint i = 0; i < kRows; ++i) {
      for (uint j = 0; j < kColumns; ++j) {
        if (row0 + i < m && column0 + j < n) {
          const uint index = (row0 + i) * c_stride + column0 + j;
          // matmul_begin has put beta c + bias there.
          c.at[index] = kBlend ? fma(alpha, sum[i][j], c.at[index]) : alpha * sum[i][j];
        }
      }
    }
  }
}
