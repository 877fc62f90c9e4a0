// SPDX-License-Identifier: Apache-2.0
#version 460
// transpose in units of 2 bytes.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#define Stored uint16_t
#define Unit uint
#define kUnitBytes 2
#include "transpose.glsl"
