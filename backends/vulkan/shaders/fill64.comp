// SPDX-License-Identifier: Apache-2.0
#version 460
// Fills 8-byte words; vkCmdFillBuffer does the narrower patterns.
#extension GL_GOOGLE_include_directive : require
#include "elements.glsl"

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Words {
  uvec2 at[];
};
layout(push_constant, std430) uniform Arguments {
  Words destination;
  uvec2 pattern;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) destination.at[i] = pattern;
}
