// SPDX-License-Identifier: Apache-2.0
#include "collectives/element_types.h"

#include <limits>
#include <vector>

#include "collectives/operation.h"

namespace keel {

namespace {

// Replaces a reduction of bool by one of uint8; returns false if there is none.
bool lower_bool(keel_reduction* reduction) {
  switch (*reduction) {
    case KEEL_SUM:
    case KEEL_MAX:
    case KEEL_BOR:
      *reduction = KEEL_MAX;
      return true;
    case KEEL_PROD:
    case KEEL_MIN:
    case KEEL_BAND:
      *reduction = KEEL_MIN;
      return true;
    case KEEL_BXOR:
      return true;
    default:
      return false;
  }
}

// Doubles |*value|, or leaves it past every count that a buffer can have.
void make_two(uint64_t* value) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  *value = *value > kMost / 2 ? kMost : *value * 2;
}

void make_two(std::vector<Piece>* pieces) {
  for (Piece& piece : *pieces) {
    make_two(&piece.offset);
    make_two(&piece.count);
  }
}

}  // namespace

const char* element_name(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_BOOL:
      return "bool";
    case KEEL_COMPLEX64:
      return "complex64";
    case KEEL_COMPLEX128:
      return "complex128";
    default:
      return kit::dtype_name(dtype);
  }
}

Status no_reduction(keel_dtype dtype, keel_reduction reduction) {
  return failure(KEEL_UNSUPPORTED, "there is no {} of {}", reduction_name(reduction),
                 element_name(dtype));
}

Status lower_element_type(Request* request) {
  const keel_dtype dtype = request->dtype;
  if (dtype != KEEL_BOOL && dtype != KEEL_COMPLEX64 && dtype != KEEL_COMPLEX128) return {};
  keel_reduction reduction = request->reduction;
  if (reduces(request->collective)) {
    const bool is_scaled =
        reduction == KEEL_SUM || reduction == KEEL_AVG || reduction == KEEL_PREMUL_SUM;
    const bool is_known = reduction < KEEL_REDUCTION_COUNT || is_bitwise(reduction);
    const bool has = dtype == KEEL_BOOL ? lower_bool(&reduction) : is_scaled;
    if (is_known && !has) return no_reduction(dtype, reduction);
  }
  request->called = {true, 0, dtype, request->reduction};
  request->reduction = reduction;
  if (dtype == KEEL_BOOL) {
    request->dtype = KEEL_UINT8;
    return {};
  }
  request->dtype = dtype == KEEL_COMPLEX64 ? KEEL_FLOAT32 : KEEL_FLOAT64;
  request->called.lane_bits = 1;
  make_two(&request->count);
  make_two(&request->send_pieces);
  make_two(&request->receive_pieces);
  return {};
}

}  // namespace keel
