// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over a workgroup: subgroup operations, then one value a subgroup
// through shared memory unless the workgroup is a single subgroup.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

layout(constant_id = 1) const bool kOneSubgroup = false;

shared float g_partial[64];  // 256 invocations in subgroups of at least 4

// In the same order on every invocation: all get the same bits.
float reduce_add(float value) {
  value = subgroupAdd(value);
  if (kOneSubgroup) return value;
  barrier();  // the last call's partials have been read
  if (subgroupElect()) g_partial[gl_SubgroupID] = value;
  barrier();
  float sum = 0.0;
  for (uint i = 0; i < gl_NumSubgroups; ++i) sum += g_partial[i];
  return sum;
}

float reduce_max(float value) {
  value = subgroupMax(value);
  if (kOneSubgroup) return value;
  barrier();
  if (subgroupElect()) g_partial[gl_SubgroupID] = value;
  barrier();
  float largest = g_partial[0];
  for (uint i = 1; i < gl_NumSubgroups; ++i) largest = max(largest, g_partial[i]);
  return largest;
}

// Adds term(c) to |total| for this invocation's columns c of [0, count), in blocks, so that the
// rounding error grows with the square root of their number.
#define ADD_COLUMNS(total, c, count, term) ADD_COLUMNS_AS(float, total, c, count, term)

// The same for a |total| of |type|.
#define ADD_COLUMNS_AS(type, total, c, count, term)                                       \
  for (uint from_ = 0; from_ < (count); from_ += 64 * gl_WorkGroupSize.x) {               \
    const uint end_ = min(from_ + 64 * gl_WorkGroupSize.x, (count));                      \
    type part_ = type(0.0);                                                               \
    for (uint c = from_ + gl_LocalInvocationID.x; c < end_; c += gl_WorkGroupSize.x) {    \
      part_ += (term);                                                                    \
    }                                                                                     \
    total += part_;                                                                       \
  }
