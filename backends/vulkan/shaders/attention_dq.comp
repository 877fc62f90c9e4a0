// SPDX-License-Identifier: Apache-2.0
#version 460
// Computes dq of a tile of queries: loops over the keys in order.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "attention.glsl"

void main() {
  const uint tiles = (tokens_q + kTile - 1) / kTile;
  for (uint unit = gl_WorkGroupID.x; unit < tiles * heads; unit += gl_NumWorkGroups.x) {
    const uint head = unit % heads;
    const uint first = unit / heads * kTile;
    const uint rows = head * tokens_q;
    const uint kv_head = head / (heads / kv_heads);
    Heads queries = Heads(q, tokens_q, heads, head);
    Heads gradients = Heads(dout, tokens_q, heads, head);
    Heads keys = Heads(k, tokens_k, kv_heads, kv_head);
    Heads values = Heads(v, tokens_k, kv_heads, kv_head);
    const uvec2 seen = fill_windows(first, true, rows);
    float sums[kOwn][kColumns];
    for (uint i = 0; i < kOwn; ++i) {
      for (uint c = 0; c < kColumns; ++c) sums[i][c] = 0.0;
    }
    for (uint key = begin_of_keys(seen.x); key < seen.y; key += kTile) {
      draw_kept(head, first, key);
      float slopes[kOwn][kOwn];
      float of_values[kOwn][kOwn];
      multiply_heads(queries, first, keys, key, slopes);
      multiply_heads(gradients, first, values, key, of_values);
      make_scores(head, key, false, slopes);
      for (uint i = 0; i < kOwn; ++i) {
        for (uint j = 0; j < kOwn; ++j) {
          const uint query = first + own_row() + i;
          float slope = 0.0;
          if (sees(own_row() + i, key + own_column(j))) {
            const float p = exp_or_infinity(slopes[i][j] - logsumexp.at[rows + query]);
            const float factor = dropout_factor(own_row() + i, own_column(j));
            slope = scale * p * (factor * of_values[i][j] - delta.at[rows + query]);
          }
          slopes[i][j] = slope;
        }
      }
      share_weights(slopes);
      add_weighted(keys, key, false, 0, sums);
    }
    store_rows(Heads(like_q, tokens_q, heads, head), first, sums);
  }
}
