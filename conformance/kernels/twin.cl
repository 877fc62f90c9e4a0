// SPDX-License-Identifier: Apache-2.0
/* A different kernel with the name of one in kernels.cl, in a separate module. */
unsigned long __attribute__((overloadable, const)) get_global_id(unsigned axis);

/* result[thread] = 3 result[thread] + first, for grids in x only. */
__kernel void number(__global unsigned* result, unsigned first) {
  const unsigned long at = get_global_id(0);
  result[at] = 3 * result[at] + first;
}
