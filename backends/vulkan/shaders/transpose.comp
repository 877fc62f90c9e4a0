// SPDX-License-Identifier: Apache-2.0
#version 460
// Copies units of KEEL_BYTES bytes, whatever their dtype, into another order of the axes. A unit is
// a Stored in memory and a Unit in shared memory.
#extension GL_GOOGLE_include_directive : require
#if KEEL_BYTES == 1
#extension GL_EXT_shader_8bit_storage : require
#define Stored uint8_t
#define Unit uint
#elif KEEL_BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define Stored uint16_t
#define Unit uint
#elif KEEL_BYTES == 4
#define Stored uint
#define Unit uint
#elif KEEL_BYTES == 8
#define Stored uvec2
#define Unit uvec2
#elif KEEL_BYTES == 16
#define Stored uvec4
#define Unit uvec4
#endif
#include "elements.glsl"

layout(buffer_reference, std430, buffer_reference_align = KEEL_BYTES) buffer Units {
  Stored at[];
};
// Steps are in units, in x and in y.
struct Axis {
  uint extent;
  uint from;
  uint to;
};
layout(push_constant, std430) uniform Arguments {
  Units x;
  Units y;
  uint count;  // units, or tiles
  uint span;
  uint outer_count;
  uint columns;
  uint column_from;
  Axis row;
  Axis outer[6];  // slowest first
};

layout(constant_id = 2) const uint kVariant = 0;
const bool kTiled = kVariant == 1;
// Along a tile: of the widest units so many that it fits the shared memory all devices have.
const uint kSide = KEEL_BYTES == 16 ? 16 : 32;
const uint kPitch = kSide + 1;

shared Unit g_tile[kSide * kPitch];

// Where the element |index| of the outer axes begins, in x and in y.
uvec2 place_of(uint index) {
  uvec2 place = uvec2(0);
  for (uint axis = outer_count; axis-- > 0;) {
    const uint rest = index / outer[axis].extent;
    place += (index - rest * outer[axis].extent) * uvec2(outer[axis].from, outer[axis].to);
    index = rest;
  }
  return place;
}

// One after the other as y has them: rows and columns are the innermost axes there.
void move_each() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint line = i / columns;
    const uint plane = line / row.extent;
    const uint from = place_of(plane).x + (line - plane * row.extent) * row.from +
                      (i - line * columns) * column_from;
    y.at[i] = x.at[from];
  }
}

// A workgroup moves a tile: neighbours read neighbours of x, and write neighbours of y.
void move_tiles() {
  const uint across = (columns + kSide - 1) / kSide;
  const uint down = (row.extent + kSide - 1) / kSide;
  const uint lines = gl_WorkGroupSize.x / kSide;
  const uint lane = gl_LocalInvocationID.x % kSide;
  const uint line = gl_LocalInvocationID.x / kSide;
  for (uint index = gl_WorkGroupID.x; index < count; index += gl_NumWorkGroups.x) {
    const uvec2 place = place_of(index / across / down);
    const uint first_column = index % across * kSide;
    const uint first_row = index / across % down * kSide;
    const uint from = place.x + first_row * row.from + first_column * column_from;
    const uint to = place.y + first_row * row.to + first_column;
    for (uint c = line; c < kSide; c += lines) {
      if (first_column + c < columns && first_row + lane < row.extent) {
        g_tile[c * kPitch + lane] = Unit(x.at[from + lane * row.from + c * column_from]);
      }
    }
    barrier();
    for (uint r = line; r < kSide; r += lines) {
      if (first_row + r < row.extent && first_column + lane < columns) {
        y.at[to + r * row.to + lane] = Stored(g_tile[lane * kPitch + r]);
      }
    }
    barrier();  // the tile has been read
  }
}

void main() {
  if (kTiled) {
    move_tiles();
  } else {
    move_each();
  }
}
