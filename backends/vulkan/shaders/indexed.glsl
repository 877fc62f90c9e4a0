// SPDX-License-Identifier: Apache-2.0
// Arguments and loops of gather and scatter. The including shader first includes typed.glsl and
// declares the push constants, with |call|, |index| and |steps|.

uint type() { return call & 15u; }
bool has_wide_index() { return (call & 16u) != 0; }
uint last_axis() { return call >> 5 & 7u; }

// More axes than kPushedAxes have no room among the push constants: all are then in memory.
uint step_at(uint i) {
  return last_axis() < kPushedAxes ? steps[i] : Words(uvec2(steps[0], steps[1])).at[i];
}

// Where |i| of the row-major order is in x, the index and y. By axis, fastest first: the strides,
// then the extent.
uvec3 place_of(uint i) {
  uvec3 place = uvec3(0);
  uint from = 0;
  for (uint axis = last_axis(); axis != 0; --axis) {
    const uint extent = step_at(from + 3u);
    const uint rest = i / extent;
    place += (i - rest * extent) * uvec3(step_at(from), step_at(from + 1u), step_at(from + 2u));
    i = rest;
    from += 4u;
  }
  return place + i * uvec3(step_at(from), step_at(from + 1u), step_at(from + 2u));
}

// At |place| of the index; at least |extent| for one outside of [0, extent).
uint index_at(uint place, uint extent) {
  if (!has_wide_index()) return Words(index).at[place];
  const uvec2 wide = Pairs(index).at[place];
  return wide.y == 0 ? wide.x : extent;
}
