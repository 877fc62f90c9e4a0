// What the matmul kernels share: c[m, n] = alpha op(a) op(b) + beta c + bias, row
// strides in elements, unit stride within a row.
#extension GL_EXT_buffer_reference : require

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer ReadFloats {
  float at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Floats {
  float at[];
};
layout(push_constant, std430) uniform Arguments {
  ReadFloats a;
  ReadFloats b;
  Floats c;
  ReadFloats bias;
  uint m;
  uint n;
  uint k;
  uint a_stride;
  uint b_stride;
  uint c_stride;
  float alpha;
  float beta;
};

layout(constant_id = 2) const uint kVariant = 0;
const bool kTransA = (kVariant & 1) != 0;  // a is stored [k, m]
const bool kTransB = (kVariant & 2) != 0;  // b is stored [n, k]
const bool kBias = (kVariant & 4) != 0;
const bool kBeta = (kVariant & 8) != 0;    // beta is not 0: c is read

uint a_index(uint row, uint depth) {
  return kTransA ? depth * a_stride + row : row * a_stride + depth;
}

uint b_index(uint depth, uint column) {
  return kTransB ? column * b_stride + depth : depth * b_stride + column;
}

void store_c(uint row, uint column, float sum) {
  const uint index = row * c_stride + column;
  float value = alpha * sum;
  if (kBeta) value = fma(beta, c.at[index], value);
  if (kBias) value += bias.at[column];
  c.at[index] = value;
}
