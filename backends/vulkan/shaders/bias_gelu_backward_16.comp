// SPDX-License-Identifier: Apache-2.0
#version 460
// bias_gelu_backward of float16 or bfloat16.
#extension GL_GOOGLE_include_directive : require
#include "stored_16.glsl"
#include "bias_gelu_backward.glsl"
