// SPDX-License-Identifier: Apache-2.0
// Keel's dtypes as ACL's.
#ifndef KEEL_BACKENDS_ASCEND_TYPES_H_
#define KEEL_BACKENDS_ASCEND_TYPES_H_

#include <keel/abi.h>

#include "vendor/ascend/acl.h"

namespace keel::ascend {

// Returns ACL_DT_UNDEFINED where ACL has no type, or only some chips have it (the 8-bit floats).
constexpr aclDataType type_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_INT8:
      return ACL_INT8;
    case KEEL_INT16:
      return ACL_INT16;
    case KEEL_INT32:
      return ACL_INT32;
    case KEEL_INT64:
      return ACL_INT64;
    case KEEL_UINT8:
      return ACL_UINT8;
    case KEEL_UINT16:
      return ACL_UINT16;
    case KEEL_UINT32:
      return ACL_UINT32;
    case KEEL_UINT64:
      return ACL_UINT64;
    case KEEL_FLOAT16:
      return ACL_FLOAT16;
    case KEEL_BFLOAT16:
      return ACL_BF16;
    case KEEL_FLOAT32:
      return ACL_FLOAT;
    case KEEL_FLOAT64:
      return ACL_DOUBLE;
    default:
      return ACL_DT_UNDEFINED;
  }
}

// As type_of, and the 8-bit floats of the chips that cast them.
constexpr aclDataType cast_type_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT8_E4M3FN:
      return ACL_FLOAT8_E4M3FN;
    case KEEL_FLOAT8_E5M2:
      return ACL_FLOAT8_E5M2;
    default:
      return type_of(dtype);
  }
}

// Returns a type of |bytes| bytes, for operators that move elements without looking at them.
constexpr aclDataType mover_of(uint32_t bytes) {
  switch (bytes) {
    case 1:
      return ACL_UINT8;
    case 2:
      return ACL_INT16;
    case 4:
      return ACL_INT32;
    default:
      return ACL_INT64;
  }
}

}  // namespace keel::ascend

#endif  // KEEL_BACKENDS_ASCEND_TYPES_H_
