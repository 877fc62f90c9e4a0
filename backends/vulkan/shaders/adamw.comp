// SPDX-License-Identifier: Apache-2.0
#version 460
// One step of AdamW with decoupled weight decay. g has KEEL_STORED bits, the other tensors are
// float32. The host computes the bias corrections in double: in float, 1 - beta^step loses all its
// digits for beta near 1.
#extension GL_GOOGLE_include_directive : require
#include "stored.glsl"

layout(push_constant, std430) uniform Arguments {
  Floats p;
  Floats g;
  Floats m;
  Floats v;
  Floats p_out;
  Floats m_out;
  Floats v_out;
  uint count;
  uint span;
  float lr;
  float beta1;
  float beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float eps;
  float weight_decay;
  float grad_scale;
  float m_correction;  // 1 / (1 - beta1^step)
  float v_correction;  // 1 / (1 - beta2^step)
};

void main() {
  FOR_EACH_ELEMENT(i, count, span) {
    const float gradient = load(g, i) * grad_scale;
    const float first = beta1 * m.at[i] + one_minus_beta1 * gradient;
    const float second = beta2 * v.at[i] + one_minus_beta2 * gradient * gradient;
    const float old = p.at[i];
    const float update = first * m_correction / (sqrt(second * v_correction) + eps);
    p_out.at[i] = old - lr * (update + weight_decay * old);
    m_out.at[i] = first;
    v_out.at[i] = second;
  }
}
