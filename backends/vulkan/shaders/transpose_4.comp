// SPDX-License-Identifier: Apache-2.0
#version 460
// transpose in units of 4 bytes.
#extension GL_GOOGLE_include_directive : require
#define Stored uint
#define Unit uint
#define kUnitBytes 4
#include "transpose.glsl"
