// SPDX-License-Identifier: Apache-2.0
#version 460
// embedding of elements of 4 bytes.
#extension GL_GOOGLE_include_directive : require
#define Stored uint
#define kStoredBytes 4
#include "embedding.glsl"
