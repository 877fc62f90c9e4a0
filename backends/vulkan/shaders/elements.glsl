// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels: each workgroup walks a span of its own, so that the
// invocations of a subgroup touch neighbours and a workgroup one stretch.
#extension GL_EXT_buffer_reference : require

layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
  float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Ints {
  int at[];
};

// Runs the statement once for each element |i| of this invocation.
#define FOR_EACH_ELEMENT(i, count, span)                                      \
  const uint end_ = min((count), (gl_WorkGroupID.x + 1) * (span));            \
  for (uint i = gl_WorkGroupID.x * (span) + gl_LocalInvocationID.x; i < end_; \
       i += gl_WorkGroupSize.x)
