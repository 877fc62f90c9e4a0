// SPDX-License-Identifier: Apache-2.0
#version 460
// One subgroup per table row. Each lane reads an index; for every hit, in the order of the indices,
// the lanes add the hit's row of dout, one column per lane. The sum of a cell therefore has one
// fixed order, and needs no atomic. dout has KEEL_STORED bits, dtable is float32.
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats dout;
  Ints indices;
  Floats dtable;
  uint index_count;
  uint width;
  uint table_rows;
  int first;
};

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
          dtable.at[row * width + c] += load(dout, from + c);
        }
      }
    }
  }
}
