// SPDX-License-Identifier: Apache-2.0
// Kernels that compute or move each element independently. The small sources form one family, since
// each family costs nvcc nearly two seconds more.
#include "backends/simt/activation.cc"
#include "backends/simt/dropout.cc"
#include "backends/simt/elementwise.cc"
#include "backends/simt/embedding.cc"
#include "backends/simt/layout.cc"
#include "backends/simt/rope.cc"
#include "backends/simt/scaled.cc"
