// SPDX-License-Identifier: Apache-2.0
// What the matmul kernels share: c[m, n] = activation(alpha op(a) op(b) + beta c + bias), row
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
  // Of a batch, whose products are the rows of the grid: elements from one matrix to the next.
  uint a_batch;
  uint b_batch;
  uint c_batch;
  uint activation;  // by the numbers of the operator's attribute
};

layout(constant_id = 2) const uint kVariant = 0;
const bool kTransA = (kVariant & 1) != 0;     // a is stored [k, m]
const bool kTransB = (kVariant & 2) != 0;     // b is stored [n, k]
const bool kBlend = (kVariant & 4) != 0;      // there is a beta or a bias
const bool kBatched = (kVariant & 32) != 0;
const uint kVariantRest = kVariant >> 3 & 3;  // each kernel's own

// Where this workgroup's matrix begins.
uint first_of(uint batch_stride) {
  return kBatched ? gl_WorkGroupID.y * batch_stride : 0;
}

uint a_index(uint row, uint depth) {
  return first_of(a_batch) + (kTransA ? depth * a_stride + row : row * a_stride + depth);
}

uint b_index(uint depth, uint column) {
  return first_of(b_batch) + (kTransB ? column * b_stride + depth : depth * b_stride + column);
}

uint c_index(uint row, uint column) {
  return first_of(c_batch) + row * c_stride + column;
}
