// SPDX-License-Identifier: Apache-2.0
#version 460
// Computes dk and dv of a tile of keys: loops over the heads of the group, and for each head over
// the queries in order.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "attention.glsl"

void main() {
  const uint tiles = (tokens_k + kTile - 1) / kTile;
  const uint group = heads / kv_heads;
  for (uint unit = gl_WorkGroupID.x; unit < tiles * kv_heads; unit += gl_NumWorkGroups.x) {
    const uint kv_head = unit % kv_heads;
    const uint first = unit / kv_heads * kTile;
    Heads keys = Heads(k, tokens_k, kv_heads, kv_head);
    Heads values = Heads(v, tokens_k, kv_heads, kv_head);
    float of_k[kOwn][kColumns];
    float of_v[kOwn][kColumns];
    for (uint i = 0; i < kOwn; ++i) {
      for (uint c = 0; c < kColumns; ++c) {
        of_k[i][c] = 0.0;
        of_v[i][c] = 0.0;
      }
    }
    for (uint head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const uint rows = head * tokens_q;
      Heads queries = Heads(q, tokens_q, heads, head);
      Heads gradients = Heads(dout, tokens_q, heads, head);
      for (uint from = 0; from < tokens_q; from += kTile) {
        const uvec2 seen = fill_windows(from, true, rows);
        if (seen.y <= first || seen.x >= first + kTile) continue;  // the whole workgroup does
        draw_kept(head, from, first);
        float weights[kOwn][kOwn];
        float slopes[kOwn][kOwn];
        multiply_heads(keys, first, queries, from, weights);
        multiply_heads(values, first, gradients, from, slopes);
        make_scores(head, first, true, weights);
        for (uint i = 0; i < kOwn; ++i) {
          for (uint j = 0; j < kOwn; ++j) {
            const uint query = from + own_column(j);
            float p = 0.0;
            float slope = 0.0;
            if (sees(own_column(j), first + own_row() + i)) {
              const float factor = dropout_factor(own_column(j), own_row() + i);
              p = exp_or_infinity(weights[i][j] - logsumexp.at[rows + query]);
              slope = scale * p * (factor * slopes[i][j] - delta.at[rows + query]);
              p *= factor;
            }
            weights[i][j] = p;
            slopes[i][j] = slope;
          }
        }
        share_weights(weights);
        add_weighted(gradients, from, true, first, of_v);
        share_weights(slopes);
        add_weighted(queries, from, true, first, of_k);
      }
    }
    store_rows(Heads(dk, tokens_k, kv_heads, kv_head), first, of_k);
    store_rows(Heads(dv, tokens_k, kv_heads, kv_head), first, of_v);
  }
}
