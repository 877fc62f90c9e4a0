// SPDX-License-Identifier: Apache-2.0
// c = a + b
// Before it is included: stored_32.glsl or stored_16.glsl, by which 16-bit tensors are read.

layout(push_constant, std430) uniform Arguments {
  Floats a;
  Floats b;
  Floats c;
  uint count;
  uint span;
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) store(c, i, load(a, i) + load(b, i));
}
