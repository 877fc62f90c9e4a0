// SPDX-License-Identifier: Apache-2.0
// Elements that are stored as float32. For kernels whose other half, stored_16.glsl, takes 16 bits.
#include "elements.glsl"

float load(Floats tensor, uint i) { return tensor.at[i]; }
void store(Floats tensor, uint i, float value) { tensor.at[i] = value; }
