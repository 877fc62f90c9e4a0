// SPDX-License-Identifier: Apache-2.0
#version 460
// sum_columns of float32.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
#include "sum_columns.glsl"
