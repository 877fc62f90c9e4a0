// SPDX-License-Identifier: Apache-2.0
// Kernels that compute or move each element independently. The small sources form one family, since
// each family costs nvcc nearly two seconds more.
#include "kernels/gpu/activation.cc"
#include "kernels/gpu/dropout.cc"
#include "kernels/gpu/elementwise.cc"
#include "kernels/gpu/embedding.cc"
#include "kernels/gpu/layout.cc"
#include "kernels/gpu/rope.cc"
#include "kernels/gpu/scaled.cc"
