// SPDX-License-Identifier: Apache-2.0
// For stored.glsl: elements that are stored as float32.

float load(Floats tensor, uint i) { return tensor.at[i]; }
void store(Floats tensor, uint i, float value) { tensor.at[i] = value; }
