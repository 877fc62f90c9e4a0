// SPDX-License-Identifier: Apache-2.0
#version 460
// embedding_backward of float32.
#extension GL_GOOGLE_include_directive : require
#include "embedding_backward.glsl"

float load(uint i) { return dout.at[i]; }
