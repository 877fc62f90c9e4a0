// SPDX-License-Identifier: Apache-2.0
// y = alpha x
// Before it is included: stored_32.glsl or stored_16.glsl, by which 16-bit tensors are read.

layout(push_constant, std430) uniform Arguments {
  Floats x;
  Floats y;
  uint count;
  uint span;
  float alpha;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) store(y, i, alpha * load(x, i));
}
