// SPDX-License-Identifier: Apache-2.0
#version 460
// logsumexp[row], and loss[row] = logsumexp - logits[label], or 0 for a label outside the row. One
// workgroup per row. logits have KEEL_STORED bits, the results are float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats logits;
  Ints labels;
  Floats loss;
  Floats logsumexp;
  uint rows;
  uint columns;
};

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    float largest = -3.402823466e38;
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      largest = max(largest, load(logits, begin + c));
    }
    largest = reduce_max(largest);
    float sum = 0.0;
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      sum += exact_exp(load(logits, begin + c) - largest);
    }
    sum = reduce_add(sum);
    if (lane == 0) {
      const float log_of_sum = exact_log(sum);
      const int label = labels.at[row];
      float row_loss = 0.0;
      if (label >= 0 && label < int(columns)) {
        // The difference first: both are often large and close.
        row_loss = log_of_sum + (largest - load(logits, begin + uint(label)));
      }
      loss.at[row] = row_loss;
      logsumexp.at[row] = largest + log_of_sum;
    }
  }
}
