// SPDX-License-Identifier: Apache-2.0
// Kernels that reduce rows, columns or chunks: one family, see elements.cc.
#include "kernels/gpu/loss.cc"
#include "kernels/gpu/norm.cc"
#include "kernels/gpu/optimizer.cc"
#include "kernels/gpu/reduction.cc"
#include "kernels/gpu/shard.cc"
#include "kernels/gpu/softmax.cc"
