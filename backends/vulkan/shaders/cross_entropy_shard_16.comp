// SPDX-License-Identifier: Apache-2.0
#version 460
// cross_entropy_shard of float16 or bfloat16.
#extension GL_GOOGLE_include_directive : require
#include "stored_16.glsl"
#include "cross_entropy_shard.glsl"
