// SPDX-License-Identifier: Apache-2.0
#version 460
// transpose in units of 8 bytes.
#extension GL_GOOGLE_include_directive : require
#define Stored uvec2
#define Unit uvec2
#define kUnitBytes 8
#include "transpose.glsl"
