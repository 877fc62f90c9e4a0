// SPDX-License-Identifier: Apache-2.0
#version 460
// Computes out and logsumexp of a tile of queries in one pass over the keys. A larger score
// rescales the sums so far.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "attention.glsl"

void main() {
  const uint tiles = (tokens_q + kTile - 1) / kTile;
  for (uint unit = gl_WorkGroupID.x; unit < tiles * heads; unit += gl_NumWorkGroups.x) {
    const uint head = unit % heads;
    const uint first = unit / heads * kTile;
    const uint kv_head = head / (heads / kv_heads);
    Heads queries = Heads(q, tokens_q, heads, head);
    Heads keys = Heads(k, tokens_k, kv_heads, kv_head);
    Heads values = Heads(v, tokens_k, kv_heads, kv_head);
    const uvec2 seen = fill_windows(first, false, 0);
    float sums[kOwn][kColumns];
    float largest[kOwn];
    float total[kOwn];
    for (uint i = 0; i < kOwn; ++i) {
      for (uint c = 0; c < kColumns; ++c) sums[i][c] = 0.0;
      largest[i] = nothing();
      total[i] = 0.0;
    }
    for (uint key = begin_of_keys(seen.x); key < seen.y; key += kTile) {
      draw_kept(head, first, key);
      float weights[kOwn][kOwn];
      multiply_heads(queries, first, keys, key, weights);
      make_scores(head, key, false, weights);
      for (uint i = 0; i < kOwn; ++i) {
        for (uint j = 0; j < kOwn; ++j) {
          if (!sees(own_row() + i, key + own_column(j))) weights[i][j] = nothing();
        }
      }
      share_weights(weights);
      float shift[kOwn];
      for (uint i = 0; i < kOwn; ++i) {
        float top = largest[i];
        [[dont_unroll]] for (uint j = 0; j < kTile; ++j) {
          const float score = g_weights[(own_row() + i) * kPitch + j];
          if (score > top) top = score;
        }
        // Scores that are all -infinity have weights of 0.
        shift[i] = top == nothing() ? 0.0 : top;
        const float fading = exact_exp(largest[i] - shift[i]);
        for (uint c = 0; c < kColumns; ++c) sums[i][c] *= fading;
        total[i] *= fading;
        largest[i] = top;
        for (uint j = 0; j < kOwn; ++j) weights[i][j] = exact_exp(weights[i][j] - shift[i]);
      }
      share_weights(weights);
      for (uint i = 0; i < kOwn; ++i) {
        float sum = 0.0;
        [[dont_unroll]] for (uint j = 0; j < kTile; ++j) {
          sum += g_weights[(own_row() + i) * kPitch + j];
        }
        total[i] += sum;
      }
      if (has_dropout()) {
        // After the sum, which is of all weights.
        for (uint i = 0; i < kOwn; ++i) {
          for (uint j = 0; j < kOwn; ++j) {
            weights[i][j] *= dropout_factor(own_row() + i, own_column(j));
          }
        }
        share_weights(weights);
      }
      add_weighted(values, key, false, 0, sums);
    }
    for (uint i = 0; i < kOwn; ++i) {
      const bool is_nothing = total[i] == 0.0;
      for (uint c = 0; c < kColumns; ++c) sums[i][c] = is_nothing ? 0.0 : sums[i][c] / total[i];
      const uint query = first + own_row() + i;
      if (query < tokens_q && own_column(0) == 0) {
        logsumexp.at[head * tokens_q + query] =
            is_nothing ? nothing() : largest[i] + exact_log(total[i]);
      }
    }
    store_rows(Heads(like_q, tokens_q, heads, head), first, sums);
  }
}
