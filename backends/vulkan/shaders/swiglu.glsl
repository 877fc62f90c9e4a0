// SPDX-License-Identifier: Apache-2.0
// y = silu(gate) * up: rows of x are two of y's side by side.
// Before it is included: stored_32.glsl or stored_16.glsl, by which 16-bit tensors are read.
#include "math.glsl"
#include "sigmoid.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
  uint width;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const uint gate = i + i / width * width;
    const float t = load(x, gate);
    store(y, i, t * sigmoid(t).value * load(x, gate + width));
  }
}
