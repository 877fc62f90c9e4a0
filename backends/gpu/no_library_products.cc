// SPDX-License-Identifier: Apache-2.0
// For plugins without a library of matrix products, and for CUDA's in builds without cublasLt.h.
#include "backends/gpu/library_products.h"

namespace keel::gpu {

class LibraryProducts::Plans {};

LibraryProducts::LibraryProducts(Device& /*device*/, std::string /*folder*/) {}

LibraryProducts::~LibraryProducts() = default;

bool LibraryProducts::adds_bias() {
  return false;
}

bool LibraryProducts::takes(const Product& /*product*/, uint64_t* /*out_workspace_bytes*/) {
  return false;
}

keel_status LibraryProducts::run(const Stream& /*stream*/, const Product& /*product*/,
                                 const Factors& /*factors*/, void* /*workspace*/, bool* out_ran) {
  *out_ran = false;
  return KEEL_OK;
}

}  // namespace keel::gpu
