// SPDX-License-Identifier: Apache-2.0
// Equal parts of a buffer in whole cache lines, so that no two ranks write the same line.
#ifndef KEEL_COLLECTIVES_SHARES_H_
#define KEEL_COLLECTIVES_SHARES_H_

#include <algorithm>
#include <cstdint>

namespace keel {

// Number of elements of |element| bytes in a cache line, at least 1.
inline uint64_t line_elements(uint64_t element) {
  constexpr uint64_t kLine = 64;
  return std::max<uint64_t>(1, kLine / element);
}

// Elements in each of |shares| parts of |count|; the last parts may have fewer, or none.
inline uint64_t share_elements(uint64_t count, uint64_t shares, uint64_t element) {
  const uint64_t line = line_elements(element);
  return ((count + shares - 1) / shares + line - 1) / line * line;
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SHARES_H_
