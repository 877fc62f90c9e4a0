// SPDX-License-Identifier: Apache-2.0
// What a product may end in; includes of math.glsl, gelu.glsl, bias_gelu.glsl and sigmoid.glsl come
// first.
const uint kGeluByTanh = 1;
const uint kGeluByErf = 2;
const uint kSilu = 3;

float activated(float t, uint activation) {
  if (activation == kGeluByTanh || activation == kGeluByErf) {
    return gelu_of(t, activation == kGeluByErf);
  }
  if (activation != kSilu) return t;
  return silu(t);
}
