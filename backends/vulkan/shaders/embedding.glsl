// SPDX-License-Identifier: Apache-2.0
// rows[n, d] = table[indices[n] - first, d], whatever is in it; zeros for an index that the table
// does not have. Before it is included: Stored, an element in memory, and kStoredBytes, its size.
#include "elements.glsl"

layout(buffer_reference, std430, buffer_reference_align = kStoredBytes) buffer Elements {
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
