// SPDX-License-Identifier: Apache-2.0
// Element types of Keel under the names of NumPy and PyTorch, and as DLPack's.
#ifndef FRAMEWORKS_PYTHON_SRC_DTYPES_H_
#define FRAMEWORKS_PYTHON_SRC_DTYPES_H_

#include <keel/keel.h>
#include <nanobind/ndarray.h>

#include <cstdint>

namespace keel_python {

struct Dtype {
  keel_dtype code;
  const char* name;  // "float32", static
  nanobind::dlpack::dtype dlpack;
  bool is_numpy;  // whether NumPy has the type

  uint64_t size() const { return dlpack.bits / 8u; }  // bytes
};

// The type of |code|, which a Buffer or Keel has returned.
const Dtype& dtype_of(keel_dtype code);
// Finds a type by what callers pass: "float32", numpy.float32, numpy.dtype("float32") or
// torch.float32. Throws keel::Error (KEEL_INVALID_ARGUMENT), which lists the types.
const Dtype& find_dtype(nanobind::handle given);
// Throws keel::Error (KEEL_UNSUPPORTED) for a type that Keel does not have.
const Dtype& find_dtype(nanobind::dlpack::dtype wanted);

}  // namespace keel_python

#endif  // FRAMEWORKS_PYTHON_SRC_DTYPES_H_
