// SPDX-License-Identifier: Apache-2.0
#include "dtypes.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <iterator>
#include <keel/keel.hpp>
#include <string>

namespace nb = nanobind;

namespace keel_python {
namespace {

using Code = nb::dlpack::dtype_code;

constexpr nb::dlpack::dtype dlpack(Code code, uint8_t bits) {
  return {static_cast<uint8_t>(code), bits, 1};
}

constexpr Dtype kDtypes[] = {
    {KEEL_INT8, "int8", dlpack(Code::Int, 8), true},
    {KEEL_INT16, "int16", dlpack(Code::Int, 16), true},
    {KEEL_INT32, "int32", dlpack(Code::Int, 32), true},
    {KEEL_INT64, "int64", dlpack(Code::Int, 64), true},
    {KEEL_UINT8, "uint8", dlpack(Code::UInt, 8), true},
    {KEEL_UINT16, "uint16", dlpack(Code::UInt, 16), true},
    {KEEL_UINT32, "uint32", dlpack(Code::UInt, 32), true},
    {KEEL_UINT64, "uint64", dlpack(Code::UInt, 64), true},
    {KEEL_FLOAT16, "float16", dlpack(Code::Float, 16), true},
    {KEEL_BFLOAT16, "bfloat16", dlpack(Code::Bfloat, 16), false},
    {KEEL_FLOAT32, "float32", dlpack(Code::Float, 32), true},
    {KEEL_FLOAT64, "float64", dlpack(Code::Float, 64), true},
    {KEEL_FLOAT8_E4M3FN, "float8_e4m3fn", dlpack(Code::Float8_E4M3FN, 8), false},
    {KEEL_FLOAT8_E5M2, "float8_e5m2", dlpack(Code::Float8_E5M2, 8), false},
    {KEEL_BOOL, "bool", dlpack(Code::Bool, 8), true},
    {KEEL_COMPLEX64, "complex64", dlpack(Code::Complex, 64), true},
    {KEEL_COMPLEX128, "complex128", dlpack(Code::Complex, 128), true},
};
// One row for each type that has a number in abi.h, and the three of collectives alone.
static_assert(std::size(kDtypes) == KEEL_DTYPE_COUNT - 1 + 3);

// The name that |given| has as a type of NumPy or PyTorch.
std::string name_of(nb::handle given) {
  if (nb::isinstance<nb::str>(given)) return nb::cast<std::string>(given);
  if (nb::hasattr(given, "__name__")) {  // numpy.float32, a class
    return nb::cast<std::string>(given.attr("__name__"));
  }
  if (nb::hasattr(given, "name")) return nb::cast<std::string>(nb::str(given.attr("name")));
  std::string text = nb::cast<std::string>(nb::str(given));
  if (text.rfind("torch.", 0) == 0) text.erase(0, sizeof("torch.") - 1);
  return text;
}

}  // namespace

const Dtype& dtype_of(keel_dtype code) {
  const auto* const found = std::ranges::find(kDtypes, code, &Dtype::code);
  if (found != std::end(kDtypes)) return *found;
  throw keel::Error(KEEL_INTERNAL, "dtype " + std::to_string(code) + " is none");
}

const Dtype& find_dtype(nb::handle given) {
  const std::string name = name_of(given);
  std::string known;
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) return dtype;
    known += (known.empty() ? "" : ", ") + std::string(dtype.name);
  }
  throw keel::Error(KEEL_INVALID_ARGUMENT, "no dtype '" + name + "'; there are: " + known);
}

const Dtype& find_dtype(nb::dlpack::dtype wanted) {
  const auto* const found = std::ranges::find(kDtypes, wanted, &Dtype::dlpack);
  if (found != std::end(kDtypes)) return *found;
  throw keel::Error(KEEL_UNSUPPORTED, "no dtype for DLPack's code " + std::to_string(wanted.code) +
                                          ", " + std::to_string(wanted.bits) + " bits, " +
                                          std::to_string(wanted.lanes) + " lanes");
}

}  // namespace keel_python
