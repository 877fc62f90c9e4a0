// SPDX-License-Identifier: Apache-2.0
#version 460
// cross_entropy_backward of float32.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
#include "cross_entropy_backward.glsl"
