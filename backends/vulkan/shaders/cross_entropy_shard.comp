// SPDX-License-Identifier: Apache-2.0
#version 460
// For each row of a shard: its largest logit, the sum of exp(logit - largest), and the label's
// logit, or 0 where another shard has the label. One workgroup per row. logits have KEEL_STORED
// bits, the results are float32.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats logits;
  Ints labels;
  Floats largest_logit;
  Floats sum_exp;
  Floats target;
  uint rows;
  uint columns;
  int first;
};

void main() {
  const float kMasked = uintBitsToFloat(0xff800000u);  // minus infinity
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    float largest = kMasked;
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      // By a comparison, which NaN never wins.
      const float logit = load(logits, begin + c);
      if (logit > largest) largest = logit;
    }
    largest = reduce_max(largest);
    // In blocks, so that the rounding error grows with the square root of the count.
    const uint block = 64 * gl_WorkGroupSize.x;
    float sum = 0.0;
    for (uint from = 0; from < columns; from += block) {
      const uint to = min(from + block, columns);
      float part = 0.0;
      for (uint c = from + lane; c < to; c += gl_WorkGroupSize.x) {
        const float logit = load(logits, begin + c);
        if (logit != kMasked) part += exact_exp(logit - largest);
      }
      sum += part;
    }
    sum = reduce_add(sum);
    if (lane == 0) {
      const int label = labels.at[row];
      float label_logit = 0.0;
      if (label >= first && uint(label - first) < columns) {
        label_logit = load(logits, begin + uint(label - first));
      }
      largest_logit.at[row] = largest;
      sum_exp.at[row] = sum;
      target.at[row] = label_logit;
    }
  }
}
