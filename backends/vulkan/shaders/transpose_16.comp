// SPDX-License-Identifier: Apache-2.0
#version 460
// transpose in units of 16 bytes.
#extension GL_GOOGLE_include_directive : require
#define Stored uvec4
#define Unit uvec4
#define kUnitBytes 16
#include "transpose.glsl"
