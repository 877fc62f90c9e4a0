// SPDX-License-Identifier: Apache-2.0
#version 460
// A workgroup a row. In place, all of it has read the logsumexps before one invocation writes.
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"
#include "math.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats out_a;
  Floats lse_a;
  Floats out_b;
  Floats lse_b;
  Floats out_;
  Floats logsumexp;
  uint tokens;
  uint heads;
  uint width;
};

float nothing() { return uintBitsToFloat(0xff800000u); }  // -infinity

void main() {
  for (uint row = gl_WorkGroupID.x; row < tokens * heads; row += gl_NumWorkGroups.x) {
    const uint begin = (row % tokens * heads + row / tokens) * width;
    const float left = lse_a.at[row];
    const float right = lse_b.at[row];
    const bool has_left = left != nothing();
    const bool has_right = right != nothing();
    const float top = isnan(left) || left > right ? left : right;
    const float of_left = has_left ? exact_exp(left - top) : 0.0;
    const float of_right = has_right ? exact_exp(right - top) : 0.0;
    const float total = of_left + of_right;
    for (uint c = gl_LocalInvocationID.x; c < width; c += gl_WorkGroupSize.x) {
      float sum = 0.0;
      if (has_left) sum = of_left / total * out_a.at[begin + c];
      if (has_right) sum = fma(of_right / total, out_b.at[begin + c], sum);
      out_.at[begin + c] = sum;
    }
    barrier();
    if (gl_LocalInvocationID.x == 0) {
      logsumexp.at[row] = has_left || has_right ? top + exact_log(total) : nothing();
    }
  }
}
