// SPDX-License-Identifier: Apache-2.0
#version 460
// norm_backward of float16 or bfloat16.
#extension GL_GOOGLE_include_directive : require
#include "stored_16.glsl"
#include "norm_backward.glsl"
