// SPDX-License-Identifier: Apache-2.0
#version 460
// attention_dk_dv of float32.
#extension GL_GOOGLE_include_directive : require
#include "stored_32.glsl"
layout(constant_id = 2) const uint kVariant = 0;
#include "attention_dk_dv.glsl"
