// SPDX-License-Identifier: Apache-2.0
#version 460
// Of float32.
#extension GL_GOOGLE_include_directive : require
#include "matmul.glsl"

float load_a(uint i) { return a.at[i]; }
float load_b(uint i) { return b.at[i]; }
float load_bias(uint i) { return bias.at[i]; }
float load_c(uint i) { return c.at[i]; }
void store_c(uint i, float value) { c.at[i] = value; }

#include "matmul_tiles.glsl"
