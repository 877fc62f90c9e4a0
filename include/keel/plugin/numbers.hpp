// SPDX-License-Identifier: Apache-2.0
// Numbers of operators with dtypes as values: elementwise, reduce, gather and scatter.
#ifndef KEEL_PLUGIN_NUMBERS_HPP_
#define KEEL_PLUGIN_NUMBERS_HPP_

#include <keel/abi.h>

#include <cstdint>

namespace keel::kit {

constexpr bool is_integer(keel_dtype dtype) {
  return dtype >= KEEL_INT8 && dtype <= KEEL_UINT64;
}

// Truncates |value|; beyond int64's range the nearest end, of NaN 0. For the attributes of
// elementwise in a call that computes in int64.
constexpr int64_t truncated(double value) {
  if (value != value) return 0;
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
}

}  // namespace keel::kit

#endif  // KEEL_PLUGIN_NUMBERS_HPP_
