// SPDX-License-Identifier: Apache-2.0
// Kernels that reduce, gather and scatter tensors of any strides: one family, see elements.cc.
#include "kernels/gpu/indexed.cc"
#include "kernels/gpu/reduce.cc"
