// SPDX-License-Identifier: Apache-2.0
#version 460
// rope of float32.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
#include "rope.glsl"
