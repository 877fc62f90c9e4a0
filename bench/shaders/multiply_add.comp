// SPDX-License-Identifier: Apache-2.0
#version 460
// Chains of multiply-adds in registers: the arithmetic a device can do. 10 chains cover
// the latency of two units; 12 and more do not fit AVX2's 16 registers beside what a
// driver keeps there, and were a fifth slower on lavapipe. The factor comes from outside,
// so that nothing folds.
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
  float at[];
};
layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint steps;
  float factor;
};

#define STEP \
  c0 = fma(c0, factor, a); \
  c1 = fma(c1, factor, a); \
  c2 = fma(c2, factor, a); \
  c3 = fma(c3, factor, a); \
  c4 = fma(c4, factor, a); \
  c5 = fma(c5, factor, a); \
  c6 = fma(c6, factor, a); \
  c7 = fma(c7, factor, a); \
  c8 = fma(c8, factor, a); \
  c9 = fma(c9, factor, a);
#define STEP4 STEP STEP STEP STEP

void main() {
  const uint lane = gl_LocalInvocationID.x;
  const float a = x.at[lane % 64];
  float c0 = a, c1 = a + 1, c2 = a + 2, c3 = a + 3, c4 = a + 4, c5 = a + 5;
  float c6 = a + 6, c7 = a + 7, c8 = a + 8, c9 = a + 9;
  for (uint step = 0; step < steps; ++step) {
    STEP4 STEP4 STEP4 STEP4
  }
  const float sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9;
  if (sum == 12345.0) y.at[lane % 64] = sum;  // never, as far as a compiler can tell
}
