// SPDX-License-Identifier: Apache-2.0
// Rows of the schema table: transpose.
#include "ops/case_generators.h"
#include "ops/reference_functions.h"
#include "ops/schema_parts.h"
#include "ops/schema_rows.h"
#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr OutputSpec kTransposeOutputs[] = {{"y", "x's, its axes in the order"}};
constexpr AttributeSpec kTransposeAttributes[] = {
    {"order", AttributeKind::kInt, 0, 0, 0x76543210,
     "one hexadecimal digit per axis of y, the first axis in the most significant digit: the axis "
     "of x that becomes this axis of y. 0x10 transposes a matrix, 0x021 swaps the last two axes of "
     "three"}};

// Bits are moved unchanged.
constexpr DtypeCombination moved(keel_dtype dtype, bool optional) {
  return {{dtype}, {dtype}, optional, {}};
}
constexpr DtypeCombination kTransposeDtypes[] = {
    moved(f32, false),
    moved(bf16, true),
    moved(f16, true),
    moved(KEEL_FLOAT64, true),
    moved(KEEL_FLOAT8_E4M3FN, true),
    moved(KEEL_FLOAT8_E5M2, true),
    moved(KEEL_INT8, true),
    moved(KEEL_INT16, true),
    moved(i32, true),
    moved(KEEL_INT64, true),
    moved(KEEL_UINT8, true),
    moved(KEEL_UINT16, true),
    moved(KEEL_UINT32, true),
    moved(KEEL_UINT64, true),
};

}  // namespace

constinit const Schema kTranspose = {
    KEEL_OP_TRANSPOSE,
    "transpose",
    "y = x with the axes of x in another order: y[i0,i1,...] = x[j0,j1,...] where the index along "
    "axis order[k] of x is ik. The kernel copies bits unchanged, NaN included",
    kUnaryInputs,
    kTransposeOutputs,
    kTransposeAttributes,
    kTransposeDtypes,
    kNone,
    check_transpose,
    transpose_cases,
    transpose_reference};

}  // namespace keel::ops
