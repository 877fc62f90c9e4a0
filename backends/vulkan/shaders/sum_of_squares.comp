// SPDX-License-Identifier: Apache-2.0
#version 460
// sum_of_squares of float32; variant 1 joins, of whatever dtype the elements were.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
layout(constant_id = 2) const uint kVariant = 0;
const bool kJoin = kVariant == 1;
#include "sum_of_squares.glsl"
