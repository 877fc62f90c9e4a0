// SPDX-License-Identifier: Apache-2.0
#version 460
// transpose in units of a byte.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_8bit_storage : require
#define Stored uint8_t
#define Unit uint
#define kUnitBytes 1
#include "transpose.glsl"
