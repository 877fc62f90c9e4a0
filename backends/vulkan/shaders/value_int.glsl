// SPDX-License-Identifier: Apache-2.0
// Kernels that compute in int64, of integers alone; an include of typed.glsl comes first.
#extension GL_ARB_gpu_shader_int64 : require

#define Value int64_t

bool is_nan(int64_t value) { return false; }
int64_t number(uvec2 bits) { return packInt2x32(ivec2(bits)); }
uvec2 bits_of(int64_t value) { return uvec2(unpackInt2x32(value)); }

int64_t to_value(uvec2 bits, uint type) {
  if (type == kInt64) return packInt2x32(ivec2(bits));
  return int64_t(widen(bits.x, type));
}

uvec2 to_bits(int64_t value, uint type) { return uvec2(unpackInt2x32(value)); }
