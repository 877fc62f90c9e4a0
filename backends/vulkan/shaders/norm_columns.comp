// SPDX-License-Identifier: Apache-2.0
#version 460
// norm_columns of float32.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
#include "norm_columns.glsl"
