#version 460
// rows[n, d] = table[indices[n], d]; zeros for an index outside the table.
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats table;
  Ints indices;
  Floats rows;
  uint count;
  uint span;
  uint width;
  int table_rows;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint row = i / width;
    const int index = indices.at[row];
    const bool inside = index >= 0 && index < table_rows;
    float value = 0.0;
    if (inside) value = table.at[uint(index) * width + (i - row * width)];
    rows.at[i] = value;
  }
}
