// SPDX-License-Identifier: Apache-2.0
#version 460
// rests[row]: what float32 rounded off the logsumexp of a row, or 0 where that is under 2^-19 of a
// probability, where the row's own is another, and where the label is outside the row. A workgroup
// takes as many rows as it has invocations, of which all read a row whose rest is wanted. logits
// have KEEL_STORED bits.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats logits;
  Ints labels;
  Floats logsumexp;
  Floats rests;
  uint rows;
  uint columns;
};

bool is_wanted(uint row) {
  const int label = labels.at[row];
  return abs(logsumexp.at[row]) >= 64.0 && label >= 0 && label < int(columns);
}

float rest_of(uint row) {
  const uint lane = gl_LocalInvocationID.x;
  const uint begin = row * columns;
  float largest = -3.402823466e38;
  for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
    largest = max(largest, load(logits, begin + c));
  }
  largest = reduce_max(largest);
  float sum = 0.0;
  ADD_COLUMNS(sum, c, columns, exact_exp(load(logits, begin + c) - largest))
  sum = reduce_add(sum);
  const float given = logsumexp.at[row];
  precise const float rest = (largest - given) + exact_log(sum);
  return abs(rest) < abs(given) * 7.62939453125e-6 ? rest : 0.0;  // 2^-17; of NaN 0
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  for (uint first = gl_WorkGroupID.x * gl_WorkGroupSize.x; first < rows; first += step) {
    const uint count = min(gl_WorkGroupSize.x, rows - first);
    if (lane < count) rests.at[first + lane] = 0.0;
    // The usual case.
    if (reduce_max(lane < count && is_wanted(first + lane) ? 1.0 : 0.0) == 0.0) continue;
    for (uint row = first; row < first + count; ++row) {
      if (!is_wanted(row)) continue;  // the same on all invocations
      const float rest = rest_of(row);
      if (lane == row - first) rests.at[row] = rest;
    }
  }
}
