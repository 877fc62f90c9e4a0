// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_SHIMS_CUBLASLT_PRODUCT_H_
#define KEEL_EMULATOR_SHIMS_CUBLASLT_PRODUCT_H_

#include <cstdint>

#include "emulator/memory.h"
#include "emulator/shims/cublaslt/problem.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::cublaslt {

// The arguments of one cublasLtMatmul call, by value.
struct Product {
  Problem problem;
  Address a, b, c, d;
  float alpha, beta;
  Address workspace;
  uint64_t workspace_bytes;
};

// Returns the resources that |product| consumes.
Work work_of(const Product& product);
// Computes |product| on the queue's thread, in double, rounded once: correct by definition, so the
// result does not show any chip's summation. Writes the workspace, as a kernel does. Returns
// kIllegalAddress if a matrix, the bias or the workspace is not inside one allocation. Without
// |computes|, checks the addresses and poisons the result.
Status run_product(const Product& product, bool computes, Access& access);

}  // namespace keel::emulator::cublaslt

#endif  // KEEL_EMULATOR_SHIMS_CUBLASLT_PRODUCT_H_
