// SPDX-License-Identifier: Apache-2.0
#version 460
// rows[n, d] = table[indices[n] - first, d], of elements of KEEL_BYTES bytes, 2 or 4, whatever
// their dtype; zeros for an index outside the table.
#extension GL_GOOGLE_include_directive : require
#if KEEL_BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define Stored uint16_t
#elif KEEL_BYTES == 4
#define Stored uint
#endif
#include "elements.glsl"

layout(buffer_reference, std430, buffer_reference_align = KEEL_BYTES) buffer Elements {
  Stored at[];
};
layout(push_constant, std430) uniform Arguments {
  Elements table;
  Ints indices;
  Elements rows;
  uint count;
  uint span;
  uint width;
  uint table_rows;
  int first;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint place = i / width;
    const int index = indices.at[place];
    // Compared before it is subtracted: the difference may be no int.
    const bool inside = index >= first && uint(index - first) < table_rows;
    uint value = 0;
    if (inside) value = uint(table.at[uint(index - first) * width + (i - place * width)]);
    rows.at[i] = Stored(value);
  }
}
