// SPDX-License-Identifier: Apache-2.0
#version 460
// softmax, one workgroup per row. The shader reads the mask's bytes from words: not every device
// has 8-bit storage.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"
#include "math.glsl"
#include "reduce.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Ints mask;  // the words that hold it; its first byte is |mask_offset| behind
  Floats y;
  uint rows;
  uint columns;
  uint height;     // rows of a matrix
  uint mask_rows;  // 0: no mask; the mask begins anew after them
  uint mask_offset;
  uint causal;
  float scale;
};

#define HIDDEN uintBitsToFloat(0xff800000u)  // minus infinity

bool is_masked(uint element) {
  const uint place = element + mask_offset;
  return (uint(mask.at[place / 4]) >> place % 4 * 8 & 0xffu) != 0;
}

// scale * x of a column that causality leaves visible.
float exponent(uint row, uint column) {
  if (mask_rows != 0 && is_masked(row % mask_rows * columns + column)) return HIDDEN;
  return scale * load(x, row * columns + column);
}

void main() {
  const uint lane = gl_LocalInvocationID.x;
  for (uint row = gl_WorkGroupID.x; row < rows; row += gl_NumWorkGroups.x) {
    const uint begin = row * columns;
    uint visible = columns;
    if (causal != 0) {
      // Row i of m sees i + 1 + n - m columns, of n at most: i < m.
      const uint seen = row % height + 1 + columns;
      visible = seen > height ? seen - height : 0;
    }
    // A number below all others, so that a row that sees nothing has the sum 0.
    float top = -3.402823466e38;
    for (uint c = lane; c < visible; c += gl_WorkGroupSize.x) top = max(top, exponent(row, c));
    top = reduce_max(top);
    float sum = 0.0;
    ADD_COLUMNS(sum, c, visible, exact_exp(exponent(row, c) - top))
    sum = reduce_add(sum);
    const float factor = sum == 0.0 ? 0.0 : 1.0 / sum;
    for (uint c = lane; c < columns; c += gl_WorkGroupSize.x) {
      const float value = c < visible ? exponent(row, c) : HIDDEN;
      // Not 0 * factor: that is NaN where another element is.
      store(y, begin + c, value == HIDDEN ? 0.0 : exact_exp(value - top) * factor);
    }
  }
}
