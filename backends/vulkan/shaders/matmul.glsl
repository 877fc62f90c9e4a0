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
  uint has_bias;
  uint a_offset;  // matmul_texel: elements from the start of the texel buffer
  uint b_offset;
};

layout(constant_id = 2) const uint kVariant = 0;
const bool kTransA = (kVariant & 1) != 0;     // a is stored [k, m]
const bool kTransB = (kVariant & 2) != 0;     // b is stored [n, k]
const bool kBlend = (kVariant & 4) != 0;      // there is a beta or a bias
const uint kVariantRest = kVariant >> 3;      // each kernel's own

uint a_index(uint row, uint depth) {
  return kTransA ? depth * a_stride + row : row * a_stride + depth;
}

uint b_index(uint depth, uint column) {
  return kTransB ? column * b_stride + depth : depth * b_stride + column;
}

void store_c(uint row, uint column, float sum) {
  const uint index = row * c_stride + column;
  float value = alpha * sum;
  if (kBlend) {
    if (beta != 0.0) value = fma(beta, c.at[index], value);
    if (has_bias != 0) value += bias.at[column];
  }
  c.at[index] = value;
}
