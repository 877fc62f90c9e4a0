#version 460
// For CPU drivers: a subgroup makes kRows rows of one column a lane.
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

const uint kRows = 8;

void main() {
  const uint lanes = gl_WorkGroupSize.x;
  const uint tiles_across = (n + lanes - 1) / lanes;
  const uint tiles = tiles_across * ((m + kRows - 1) / kRows);
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    const uint row0 = tile / tiles_across * kRows;
    const uint column = tile % tiles_across * lanes + gl_LocalInvocationID.x;
    const uint safe_column = min(column, n - 1);
    float sum[kRows];
    for (uint i = 0; i < kRows; ++i) sum[i] = 0.0;
    for (uint depth = 0; depth < k; ++depth) {
      const float y = b.at[b_index(depth, safe_column)];
      for (uint i = 0; i < kRows; ++i) {
        sum[i] = fma(a.at[a_index(min(row0 + i, m - 1), depth)], y, sum[i]);
      }
    }
    for (uint i = 0; i < kRows; ++i) {
      if (row0 + i < m && column < n) store_c(row0 + i, column, sum[i]);
    }
  }
}
