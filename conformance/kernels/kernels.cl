// SPDX-License-Identifier: Apache-2.0
/* The kernels of the .comp files in OpenCL C, for devices that take SPIR-V of OpenCL's kind. Compiled
 * without a header: clang knows the names of OpenCL's functions, not their declarations. */
#define KEEL_OPENCL __attribute__((overloadable))
unsigned long KEEL_OPENCL __attribute__((const)) get_global_id(unsigned axis);
unsigned long KEEL_OPENCL __attribute__((const)) get_global_size(unsigned axis);
unsigned long KEEL_OPENCL __attribute__((const)) get_local_id(unsigned axis);
unsigned long KEEL_OPENCL __attribute__((const)) get_local_size(unsigned axis);
unsigned long KEEL_OPENCL __attribute__((const)) get_group_id(unsigned axis);
unsigned long KEEL_OPENCL __attribute__((const)) get_num_groups(unsigned axis);
void KEEL_OPENCL __attribute__((convergent)) barrier(unsigned flags);

typedef struct {
  unsigned words[4];
} Bytes16;
typedef struct {
  unsigned char bytes[40];
} Bytes40;
typedef struct {
  unsigned char bytes[3];
} Bytes3;
typedef struct {
  unsigned char bytes[1000];
} Bytes1000;

/* y[i] = a x[i] + y[i], one thread per element. */
__kernel void axpy(__global const float* x, __global float* y, float a, unsigned count) {
  const unsigned i = get_global_id(0);
  if (i < count) y[i] = a * x[i] + y[i];
}

static unsigned index_in_grid(void) {
  const unsigned width = get_global_size(0);
  const unsigned height = get_global_size(1);
  const unsigned row = (unsigned)get_global_id(2) * height + (unsigned)get_global_id(1);
  return row * width + (unsigned)get_global_id(0);
}

/* result[thread] += the thread's index in the grid, plus |first|. */
__kernel void number(__global unsigned* result, unsigned first) {
  const unsigned at = index_in_grid();
  result[at] += at + first;
}

/* Copies |bytes| of |value| to |to| and returns the address behind the copy. */
static __global unsigned char* write_back(__global unsigned char* to, const unsigned char* value,
                                          unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) to[i] = value[i];
  return to + bytes;
}

/* result = the bytes of all other arguments, concatenated. */
__kernel void values(__global unsigned char* result, unsigned char a, unsigned short b, unsigned c,
                     unsigned long d, Bytes16 e, Bytes40 f, Bytes3 g, Bytes1000 h) {
  result = write_back(result, &a, sizeof(a));
  result = write_back(result, (const unsigned char*)&b, sizeof(b));
  result = write_back(result, (const unsigned char*)&c, sizeof(c));
  result = write_back(result, (const unsigned char*)&d, sizeof(d));
  result = write_back(result, (const unsigned char*)&e, sizeof(e));
  result = write_back(result, f.bytes, sizeof(f));
  result = write_back(result, g.bytes, sizeof(g));
  write_back(result, h.bytes, sizeof(h));
}

/* result[thread] = the thread's group, its index in the group, grid and group size, each in x, y
 * and z; threads from |capacity| on write nothing. */
__kernel void places(__global unsigned* result, unsigned capacity) {
  const unsigned slot = index_in_grid();
  if (slot >= capacity) return;
  __global unsigned* to = result + (unsigned long)slot * 12;
  for (unsigned axis = 0; axis < 3; ++axis) {
    to[axis] = get_group_id(axis);
    to[3 + axis] = get_local_id(axis);
    to[6 + axis] = get_num_groups(axis);
    to[9 + axis] = get_local_size(axis);
  }
}

/* Writes each word of the group's local memory with its index in |result|; then result[group][i] =
 * the local word at words - 1 - i. |memory| has no argument: dynamic_shared_bytes. */
__kernel void shared(__global unsigned* result, unsigned words, __local unsigned* memory) {
  const unsigned first = (unsigned)get_group_id(0) * words;
  const unsigned step = get_local_size(0);
  const unsigned begin = get_local_id(0);
  for (unsigned i = begin; i < words; i += step) memory[i] = first + i;
  barrier(/*CLK_LOCAL_MEM_FENCE=*/1);
  for (unsigned i = begin; i < words; i += step) result[first + i] = memory[words - 1 - i];
}
