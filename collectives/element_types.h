// SPDX-License-Identifier: Apache-2.0
// Element types and reductions of keel.h that plugins do not have.
#ifndef KEEL_COLLECTIVES_ELEMENT_TYPES_H_
#define KEEL_COLLECTIVES_ELEMENT_TYPES_H_

#include <keel/keel.h>

#include <cstdint>
#include <keel/plugin_kit.hpp>

#include "core/status.h"

namespace keel {

struct Request;

// The caller's types of a request whose elements Keel moves and reduces as another type, equally on
// all ranks.
struct CalledType {
  bool is_set = false;
  uint8_t lane_bits = 0;  // elements of the other type an element: 1 << |lane_bits|
  keel_dtype dtype = KEEL_DTYPE_INVALID;
  keel_reduction reduction = KEEL_SUM;
};

constexpr bool is_bitwise(keel_reduction reduction) {
  return KEEL_BAND <= reduction && reduction <= KEEL_BXOR;
}

// Returns the bytes of an element; 0 for a number that is no dtype.
constexpr uint32_t element_size(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_BOOL:
      return 1;
    case KEEL_COMPLEX64:
      return 8;
    case KEEL_COMPLEX128:
      return 16;
    default:
      return kit::dtype_size(dtype);
  }
}

const char* element_name(keel_dtype dtype);

// Returns KEEL_UNSUPPORTED with the names of both.
Status no_reduction(keel_dtype dtype, keel_reduction reduction);

// Replaces KEEL_BOOL, KEEL_COMPLEX64 and KEEL_COMPLEX128 in |*request|, and the reduction, counts
// and offsets with them, by the type of the plugin interface that has the same bits and the same
// results; |request->called| then has the caller's types. Leaves other dtypes alone, and messages:
// these only move bytes. KEEL_UNSUPPORTED, without a change, for a reduction that the dtype does
// not have.
Status lower_element_type(Request* request);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ELEMENT_TYPES_H_
