// SPDX-License-Identifier: Apache-2.0
// Kernels that compute in 64-bit floats: a family of their own, since not every chip has them.
#define KEEL_SIMT_DOUBLES
#include "kernels/gpu/functions.cc"
#include "kernels/gpu/indexed.cc"
#include "kernels/gpu/reduce.cc"
