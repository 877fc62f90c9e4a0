// SPDX-License-Identifier: Apache-2.0
#version 460
// One invocation per pair (a, b), which becomes (a c - b s, b c + a s). The invocation reads both
// before it writes either. Zeros for a position outside the tables.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats cosines;
  Floats sines;
  Ints positions;
  Floats y;
  uint count;  // pairs
  uint span;
  uint heads;
  uint half_width;
  int table_rows;
  uint interleaved;
  float direction;  // -1: back
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint head = i / half_width;
    const uint j = i - head * half_width;
    const uint first = 2 * head * half_width + (interleaved != 0 ? 2 * j : j);
    const uint second = first + (interleaved != 0 ? 1 : half_width);
    const int position = positions.at[head / heads];
    float turned_a = 0.0;
    float turned_b = 0.0;
    if (position >= 0 && position < table_rows) {
      const uint angle = uint(position) * half_width + j;
      const float c = cosines.at[angle];
      const float s = direction * sines.at[angle];
      const float a = load(x, first);
      const float b = load(x, second);
      turned_a = a * c - b * s;
      turned_b = b * c + a * s;
    }
    store(y, first, turned_a);
    store(y, second, turned_b);
  }
}
