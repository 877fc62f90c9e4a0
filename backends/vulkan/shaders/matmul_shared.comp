// SPDX-License-Identifier: Apache-2.0
#version 460
// For GPUs: 256 invocations compute a 64 x 64 tile of c, 4 x 4 each, from panels of 16 columns of
// op(a) and 16 rows of op(b) in shared memory (8.5 KiB). Elements have KEEL_STORED bits: 32
// (float32) or 16 (float16 or bfloat16, where c may be float32).
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"
#include "math.glsl"
#include "gelu.glsl"
#include "bias_gelu.glsl"
#include "sigmoid.glsl"
#include "activation.glsl"

#if KEEL_STORED == 16
// Conversions are in integers, as in casts: exact, rounded to nearest even.
#extension GL_EXT_shader_16bit_storage : require
#include "float16.glsl"

layout(buffer_reference, std430, buffer_reference_align = 2) buffer Shorts {
  uint16_t at[];
};

const bool kBfloat16 = (kVariantRest & 1) != 0;
const bool kWideC = (kVariantRest & 2) != 0;  // c is float32

float widened(uint code) {
  return kBfloat16 ? uintBitsToFloat(code << 16) : from_float16(code);
}

float load_a(uint i) { return widened(uint(Shorts(a).at[i])); }
float load_b(uint i) { return widened(uint(Shorts(b).at[i])); }
float load_bias(uint i) { return widened(uint(Shorts(bias).at[i])); }
float load_c(uint i) { return kWideC ? c.at[i] : widened(uint(Shorts(c).at[i])); }

void store_c(uint i, float value) {
  if (kWideC) {
    c.at[i] = value;
  } else {
    const uint code = kBfloat16 ? to_bfloat16(floatBitsToUint(value)) : to_float16(value);
    Shorts(c).at[i] = uint16_t(code);
  }
}
#elif KEEL_STORED == 32
float load_a(uint i) { return a.at[i]; }
float load_b(uint i) { return b.at[i]; }
float load_bias(uint i) { return bias.at[i]; }
float load_c(uint i) { return c.at[i]; }
void store_c(uint i, float value) { c.at[i] = value; }
#endif

layout(local_size_x = 256, local_size_y = 1, local_size_z = 1) in;

const uint kTile = 64;
const uint kDepth = 16;
const uint kEach = 4;
const uint kRow = kTile + 4;  // 4 of padding: fewer bank conflicts of transposing stores

shared float g_a[kDepth * kRow];
shared float g_b[kDepth * kRow];

void finish_c(uint row, uint column, float sum) {
  const uint index = c_index(row, column);
  float value = alpha * sum;
  if (kBlend) {
    if (beta != 0.0) value = fma(beta, load_c(index), value);
    if (has_bias != 0) value += load_bias(column);
  }
  store_c(index, activated(value, activation));
}

void main() {
  const uint id = gl_LocalInvocationID.x;
  const uint my_row = id / 16 * kEach;
  const uint my_column = id % 16 * kEach;
  const uint tiles_across = (n + kTile - 1) / kTile;
  const uint tiles = tiles_across * ((m + kTile - 1) / kTile);
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    const uint row0 = tile / tiles_across * kTile;
    const uint column0 = tile % tiles_across * kTile;
    float sum[kEach][kEach];
    for (uint i = 0; i < kEach; ++i) {
      for (uint j = 0; j < kEach; ++j) sum[i][j] = 0.0;
    }
    for (uint depth0 = 0; depth0 < k; depth0 += kDepth) {
      barrier();  // the last panels have been read
      for (uint e = id; e < kTile * kDepth; e += 256) {
        // Neighbouring invocations read neighbours, whichever way a and b lie.
        const uint a_row = kTransA ? e % kTile : e / kDepth;
        const uint a_depth = kTransA ? e / kTile : e % kDepth;
        const bool a_in = row0 + a_row < m && depth0 + a_depth < k;
        float a_value = 0.0;
        if (a_in) a_value = load_a(a_index(row0 + a_row, depth0 + a_depth));
        g_a[a_depth * kRow + a_row] = a_value;
        const uint b_column = kTransB ? e / kDepth : e % kTile;
        const uint b_depth = kTransB ? e % kDepth : e / kTile;
        const bool b_in = column0 + b_column < n && depth0 + b_depth < k;
        float b_value = 0.0;
        if (b_in) b_value = load_b(b_index(depth0 + b_depth, column0 + b_column));
        g_b[b_depth * kRow + b_column] = b_value;
      }
      barrier();
      for (uint depth = 0; depth < kDepth; ++depth) {
        float x[kEach];
        float y[kEach];
        for (uint i = 0; i < kEach; ++i) x[i] = g_a[depth * kRow + my_row + i];
        for (uint j = 0; j < kEach; ++j) y[j] = g_b[depth * kRow + my_column + j];
        for (uint i = 0; i < kEach; ++i) {
          for (uint j = 0; j < kEach; ++j) sum[i][j] = fma(x[i], y[j], sum[i][j]);
        }
      }
    }
    for (uint i = 0; i < kEach; ++i) {
      for (uint j = 0; j < kEach; ++j) {
        const uint row = row0 + my_row + i;
        const uint column = column0 + my_column + j;
        if (row < m && column < n) finish_c(row, column, sum[i][j]);
      }
    }
  }
}
