// SPDX-License-Identifier: Apache-2.0
#version 460
// embedding of elements of 2 bytes.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_16bit_storage : require
#define Stored uint16_t
#define kStoredBytes 2
#include "embedding.glsl"
