// SPDX-License-Identifier: Apache-2.0
// One subgroup a table row. It reads the indices, a lane each, and for every hit in their order
// adds that row of dout, a lane a column: the sum of a cell has one fixed order, and no atomic is
// needed. Behind the inclusion: float load(uint i), an element of dout.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "elements.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats dout;
  Ints indices;
  Floats dtable;
  uint index_count;
  uint width;
  uint table_rows;
  int first;
};

float load(uint i);

void main() {
  const uint lane = gl_SubgroupInvocationID;
  const uint lanes = gl_SubgroupSize;
  // Where a workgroup came out as several subgroups, they share the columns.
  const uint first_column = gl_SubgroupID * lanes + lane;
  const uint step = gl_NumSubgroups * lanes;
  for (uint row = gl_WorkGroupID.x; row < table_rows; row += gl_NumWorkGroups.x) {
    const int wanted = first + int(row);
    for (uint c = first_column; c < width; c += step) dtable.at[row * width + c] = 0.0;
    for (uint base = 0; base < index_count; base += lanes) {
      const bool hit = base + lane < index_count && indices.at[base + lane] == wanted;
      uvec4 hits = subgroupBallot(hit);
      while (subgroupBallotBitCount(hits) != 0) {
        const uint bit = subgroupBallotFindLSB(hits);
        hits[bit / 32] &= hits[bit / 32] - 1;
        const uint from = (base + bit) * width;
        for (uint c = first_column; c < width; c += step) {
          dtable.at[row * width + c] += load(from + c);
        }
      }
    }
  }
}
