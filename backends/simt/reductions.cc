// SPDX-License-Identifier: Apache-2.0
// Kernels that reduce rows, columns or chunks: one family, see elements.cc.
#include "backends/simt/loss.cc"
#include "backends/simt/norm.cc"
#include "backends/simt/optimizer.cc"
#include "backends/simt/reduction.cc"
#include "backends/simt/shard.cc"
#include "backends/simt/softmax.cc"
