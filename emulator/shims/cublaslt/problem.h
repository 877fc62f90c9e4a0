// SPDX-License-Identifier: Apache-2.0
// The contents of the library's descriptors, and the product that they define.
#ifndef KEEL_EMULATOR_SHIMS_CUBLASLT_PROBLEM_H_
#define KEEL_EMULATOR_SHIMS_CUBLASLT_PROBLEM_H_

#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "emulator/memory.h"

namespace keel::emulator::cublaslt {

// Each descriptor begins with a mark, to detect memory that was never initialised and to
// distinguish the kinds of descriptors.
struct Operation {
  static constexpr uint32_t kMark = 0x6f706572;
  uint32_t mark = kMark;
  int32_t compute = 0;
  int32_t scale = 0;
  int32_t trans_a = CUBLAS_OP_N;
  int32_t trans_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  int32_t bias_type = -1;
  uint32_t reserved = 0;
  Address bias = 0;
};

struct Layout {
  static constexpr uint32_t kMark = 0x6c61796f;
  uint32_t mark = kMark;
  int32_t type = 0;
  int32_t order = CUBLASLT_ORDER_COL;
  int32_t batch = 1;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;
  int64_t batch_stride = 0;
};

struct Preference {
  static constexpr uint32_t kMark = 0x70726566;
  uint32_t mark = kMark;
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint64_t workspace = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C and D
};

// The result of the heuristic, valid for one problem only.
struct Algorithm {
  static constexpr uint32_t kMark = 0x616c676f;
  uint32_t mark = kMark;
  uint32_t bias_alignment = 1;
  uint64_t problem = 0;  // Problem::digest
  uint64_t workspace = 0;
  uint32_t alignment[4] = {};
};

// load() and store() access a descriptor in the caller's memory, behind an opaque type.
template <typename Object, typename Opaque>
Object load(const Opaque& opaque) {
  static_assert(sizeof(Object) <= sizeof(Opaque) && std::is_trivially_copyable_v<Object>);
  Object object;
  std::memcpy(static_cast<void*>(&object), &opaque, sizeof(object));
  return object;
}
template <typename Object, typename Opaque>
void store(const Object& object, Opaque* out_opaque) {
  static_assert(sizeof(Object) <= sizeof(Opaque) && std::is_trivially_copyable_v<Object>);
  std::memcpy(static_cast<void*>(out_opaque), &object, sizeof(object));
}

// Returns the bytes of an element; 0 for a type that the shim does not support.
uint64_t size_of(int32_t type);

// A valid product: d = alpha * op(a) op(b) + beta * c + bias, in column-major order.
struct Problem {
  Operation operation;
  Layout a, b, c, d;
  uint64_t m, n, k;
  int32_t batch;

  bool has_bias() const { return operation.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  // Returns a hash of all members except the bias address.
  uint64_t digest() const;
};

// Combines the descriptors. On failure returns the library's status for the error, with the reason
// in |*out_why|.
cublasStatus_t make_problem(const Operation& operation, const Layout& a, const Layout& b,
                            const Layout& c, const Layout& d, Problem* out_problem,
                            std::string* out_why);

// Returns the bytes from the first to the last element of all matrices of |layout|; false on
// overflow.
bool extent_of(const Layout& layout, uint64_t* out_bytes);

}  // namespace keel::emulator::cublaslt

#endif  // KEEL_EMULATOR_SHIMS_CUBLASLT_PROBLEM_H_
