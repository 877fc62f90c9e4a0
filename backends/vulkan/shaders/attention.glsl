// SPDX-License-Identifier: Apache-2.0
// What the attention kernels share: a workgroup of 256 makes a tile of 32 rows, queries or keys,
// while tiles of the other side pass by (FlashAttention, see the CPU's). An invocation has 2 x 2
// scores of a pair of tiles, and 2 rows of the sums. Shared memory stays below the 16 KiB that
// every device has.
//
// Loops over what an invocation owns must be unrolled, for arrays to stay in registers; others say
// [[dont_unroll]], without which heads of 256 take lavapipe five times as long to compile.
#extension GL_EXT_control_flow_attributes : require
#include "philox.glsl"

const uint kTile = 32;
const uint kSide = 16;  // invocations along a side of a pair of tiles
const uint kOwn = kTile / kSide;
const uint kDepth = 16;  // of the heads that shared memory holds
const uint kPitch = kTile + 4;
const uint kRows = 4;  // that shared memory holds to be summed
float nothing() { return uintBitsToFloat(0xff800000u); }  // -infinity

// Heads are up to 64, 128 or 256 wide: columns of the sums that an invocation has.
const uint kColumns = 4 << (kVariant >> 1);
const uint kWidth = kColumns * kSide;

// The mask, whose rows are dense: strides are in elements, and 0 where one row serves all; |queries|
// and |keys| of each sequence are not hidden. Dropout: a query of a head has |counters| counters,
// and a weight is kept, multiplied by |factor|, if its word is at least |threshold|.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Details {
  Floats mask;
  uint sequence_stride;
  uint head_stride;
  uint query_stride;
  uint queries;
  uint keys;
  uvec2 seed;    // the lower half first
  uvec2 offset;  // the counter at weight 0
  uint counters;
  uint threshold;
  float factor;
};

layout(push_constant, std430) uniform Arguments {
  Floats q;
  Floats k;
  Floats v;
  Ints cu_seqlens_q;
  Ints cu_seqlens_k;
  Details details;
  Floats dout;
  Floats logsumexp;
  Floats delta;   // [heads, tokens_q]: dout . out
  Floats like_q;  // out, or dq
  Floats dk;
  Floats dv;
  uint sequences;
  uint tokens_q;
  uint tokens_k;
  uint heads;
  uint kv_heads;
  uint width;
  float scale;
  uint flags;
};

bool is_causal() { return (flags & 1) != 0; }
bool is_packed() { return (flags & 2) != 0; }
bool has_mask() { return (flags & 4) != 0; }
bool has_dropout() { return (flags & 8) != 0; }

shared float g_a[kDepth * kPitch];
shared float g_b[kDepth * kPitch];
shared float g_weights[kTile * kPitch];
shared float g_rows[kRows * kWidth];
shared uvec3 g_windows[kTile];  // of the queries of a tile
const uint kCounters = kTile / 4;  // of a row of a tile
shared uint g_kept[kTile * kCounters];  // four bits of a query's weights

uint own_row() { return gl_LocalInvocationID.x / kSide * kOwn; }
// Columns are dealt out one by one, so that neighbours store neighbours.
uint own_column(uint j) { return gl_LocalInvocationID.x % kSide + kSide * j; }

// ---- windows ---------------------------------------------------------------------

// The largest of |entry| and those before, within the tokens.
int advance(int so_far, int entry, uint tokens) { return max(so_far, min(entry, int(tokens))); }

// The keys [x, y) that a query sees; z is the offset of its row of the mask, of head 0 and from key
// 0 on, modulo 2^32.
uvec3 find_window(uint query) {
  if (query >= tokens_q) return uvec3(0);
  int q_first = 0;
  int q_last = int(tokens_q);
  int k_first = 0;
  int k_last = int(tokens_k);
  uint sequence = 0;
  if (is_packed()) {
    q_first = advance(0, cu_seqlens_q.at[0], tokens_q);
    k_first = advance(0, cu_seqlens_k.at[0], tokens_k);
    if (int(query) < q_first) return uvec3(0);
    bool found = false;
    for (uint s = 1; s <= sequences && !found; ++s) {
      q_last = advance(q_first, cu_seqlens_q.at[s], tokens_q);
      k_last = advance(k_first, cu_seqlens_k.at[s], tokens_k);
      found = int(query) < q_last;
      if (!found) {
        q_first = q_last;
        k_first = k_last;
        ++sequence;
      }
    }
    if (!found) return uvec3(0);
  }
  if (is_causal()) k_last = clamp(k_last - (q_last - int(query)) + 1, k_first, k_last);
  if (!has_mask()) return uvec3(k_first, k_last, 0);
  const uint row = query - uint(q_first);
  const uint keys = row < details.queries ? min(uint(k_last - k_first), details.keys) : 0;
  const uint at = sequence * details.sequence_stride + row * details.query_stride;
  return uvec3(k_first, uint(k_first) + keys, at - uint(k_first));
}

// The windows of the queries of a tile, for all invocations; returns what any of them sees. With
// |gradient|, a query whose logsumexp, of those from |rows| on, is -infinity sees nothing.
uvec2 fill_windows(uint first, bool gradient, uint rows) {
  barrier();  // the windows before have been read
  if (gl_LocalInvocationID.x < kTile) {
    const uint query = first + gl_LocalInvocationID.x;
    uvec3 own = find_window(query);
    if (gradient && query < tokens_q && logsumexp.at[rows + query] == nothing()) own = uvec3(0);
    g_windows[gl_LocalInvocationID.x] = own;
  }
  barrier();
  uvec2 seen = uvec2(0xffffffffu, 0);
  [[dont_unroll]] for (uint i = 0; i < kTile; ++i) {
    const uvec3 own = g_windows[i];
    if (own.x != own.y) seen = uvec2(min(seen.x, own.x), max(seen.y, own.y));
  }
  return seen;
}

bool sees(uint row, uint key) { return key >= g_windows[row].x && key < g_windows[row].y; }

// ---- products --------------------------------------------------------------------

// Some tokens of a head of a tensor [tokens, heads, width].
struct Heads {
  Floats data;
  uint tokens;
  uint heads;
  uint head;
};

float load(Heads from, uint token, uint column) {
  if (token >= from.tokens || column >= width) return 0.0;
  return load(from.data, (token * from.heads + from.head) * width + column);
}

// products[i][j] = a[a_first + own_row + i] . b[b_first + own_column(j)].
void multiply_heads(Heads a, uint a_first, Heads b, uint b_first, out float products[kOwn][kOwn]) {
  for (uint i = 0; i < kOwn; ++i) {
    for (uint j = 0; j < kOwn; ++j) products[i][j] = 0.0;
  }
  [[dont_unroll]] for (uint from = 0; from < width; from += kDepth) {
    barrier();  // the tiles before have been read
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < kTile * kDepth; e += 256) {
      const uint row = e / kDepth;
      const uint column = e % kDepth;
      g_a[column * kPitch + row] = load(a, a_first + row, from + column);
      g_b[column * kPitch + row] = load(b, b_first + row, from + column);
    }
    barrier();
    [[dont_unroll]] for (uint step = 0; step < kDepth; ++step) {
      for (uint i = 0; i < kOwn; ++i) {
        const float left = g_a[step * kPitch + own_row() + i];
        for (uint j = 0; j < kOwn; ++j) {
          products[i][j] = fma(left, g_b[step * kPitch + own_column(j)], products[i][j]);
        }
      }
    }
  }
}

// Makes products scores: scales them and adds the mask of |head|. The rows of |scores| are those of
// the tile's queries and its columns the keys from |key| on, or the other way round with |of_keys|.
void make_scores(uint head, uint key, bool of_keys, inout float scores[kOwn][kOwn]) {
  for (uint i = 0; i < kOwn; ++i) {
    for (uint j = 0; j < kOwn; ++j) scores[i][j] *= scale;
  }
  if (!has_mask()) return;
  const uint of_head = head * details.head_stride;
  for (uint i = 0; i < kOwn; ++i) {
    for (uint j = 0; j < kOwn; ++j) {
      const uint query = of_keys ? own_column(j) : own_row() + i;
      const uint token = key + (of_keys ? own_row() + i : own_column(j));
      if (!sees(query, token)) continue;
      scores[i][j] += details.mask.at[g_windows[query].z + of_head + token];
    }
  }
}

// ---- dropout -----------------------------------------------------------------------

// Draws the weights that queries and keys of a pair of tiles keep, if there is dropout: a counter
// for each invocation. |key| is a multiple of 4. Others see g_kept after the next barrier.
void draw_kept(uint head, uint query, uint key) {
  if (!has_dropout()) return;
  const uint row = head * tokens_q + query + gl_LocalInvocationID.x / kCounters;
  uint upper, lower, carry;
  umulExtended(row, details.counters, upper, lower);
  const uint begin = uaddCarry(details.offset.x, lower, carry);
  const uvec4 words =
      philox_at(uvec2(begin, details.offset.y + upper + carry),
                key / 4 + gl_LocalInvocationID.x % kCounters, details.seed);
  const uvec4 kept = uvec4(greaterThanEqual(words, uvec4(details.threshold)));
  g_kept[gl_LocalInvocationID.x] = kept.x | kept.y << 1 | kept.z << 2 | kept.w << 3;
}

// The factor of a weight: of query |row| and key |column| of the tiles.
float dropout_factor(uint row, uint column) {
  if (!has_dropout()) return 1.0;
  const uint kept = g_kept[row * kCounters + column / 4] >> column % 4;
  return (kept & 1) != 0 ? details.factor : 0.0;
}

// The key at which the tiles of keys begin that queries see from |key| on.
uint begin_of_keys(uint key) { return has_dropout() ? key & ~3u : key; }

void share_weights(float weights[kOwn][kOwn]) {
  barrier();  // what was there before has been read
  for (uint i = 0; i < kOwn; ++i) {
    for (uint j = 0; j < kOwn; ++j) {
      g_weights[(own_row() + i) * kPitch + own_column(j)] = weights[i][j];
    }
  }
  barrier();
}

// sums[i] += the sum over the other side's |rows|, from |first| on, of the shared weights times
// them. What does not see each other has no effect, NaN included: our rows are queries and theirs
// keys, or the other way round with |of_keys|, where ours begin at |key|.
void add_weighted(Heads rows, uint first, bool of_keys, uint key,
                  inout float sums[kOwn][kColumns]) {
  [[dont_unroll]] for (uint from = 0; from < kTile; from += kRows) {
    barrier();
    [[dont_unroll]] for (uint e = gl_LocalInvocationID.x; e < kRows * kWidth; e += 256) {
      g_rows[e] = load(rows, first + from + e / kWidth, e % kWidth);
    }
    barrier();
    [[dont_unroll]] for (uint row = 0; row < kRows; ++row) {
      for (uint i = 0; i < kOwn; ++i) {
        const bool seen = of_keys ? sees(from + row, key + own_row() + i)
                                  : sees(own_row() + i, first + from + row);
        if (!seen) continue;
        const float weight = g_weights[(own_row() + i) * kPitch + from + row];
        for (uint c = 0; c < kColumns; ++c) {
          sums[i][c] = fma(weight, g_rows[row * kWidth + own_column(c)], sums[i][c]);
        }
      }
    }
  }
}

void store_rows(Heads to, uint first, float sums[kOwn][kColumns]) {
  for (uint i = 0; i < kOwn; ++i) {
    const uint token = first + own_row() + i;
    if (token >= to.tokens) break;
    for (uint c = 0; c < kColumns; ++c) {
      if (own_column(c) < width) {
        store(to.data, (token * to.heads + to.head) * width + own_column(c), sums[i][c]);
      }
    }
  }
}
