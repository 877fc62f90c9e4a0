// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_FACES_CUBLASLT_PRODUCT_H_
#define KEEL_EMULATOR_FACES_CUBLASLT_PRODUCT_H_

#include <cstdint>

#include "emulator/faces/cublaslt/problem.h"
#include "emulator/memory.h"
#include "emulator/status.h"
#include "emulator/stream.h"

namespace keel::emulator::cublaslt {

// One call of cublasLtMatmul, by value.
struct Product {
  Problem problem;
  Address a, b, c, d;
  float alpha, beta;
  Address workspace;
  uint64_t workspace_bytes;
};

// What it takes of a chip.
Work work_of(const Product& product);
// Computes it on the queue's thread, in double and rounded once: right by definition, so that it
// says nothing of any chip's sums. kIllegalAddress where a matrix, the bias or the workspace is not
// all in one allocation. The workspace is written to, as a kernel does.
Status run_product(const Product& product, Access& access);

}  // namespace keel::emulator::cublaslt

#endif  // KEEL_EMULATOR_FACES_CUBLASLT_PRODUCT_H_
