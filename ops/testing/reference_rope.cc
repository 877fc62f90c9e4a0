// SPDX-License-Identifier: Apache-2.0
// References: positions.
#include <cmath>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {

void rope_reference(Workspace& w) {
  const auto heads = static_cast<size_t>(w.extent(0, 1));
  const auto half = static_cast<size_t>(w.extent(0, 2) / 2);
  const auto rows = static_cast<double>(w.extent(1, 0));
  const bool interleaved = w.attributes<keel_op_rope_attributes>().interleaved != 0;
  const double direction = w.attributes<keel_op_rope_attributes>().inverse != 0 ? -1 : 1;
  for (size_t pair = 0; pair < w.count() / 2; ++pair) {
    const size_t row = pair / half;  // one head of one token
    const size_t j = pair % half;
    const double position = w.in(3)[row / heads];
    if (position < 0 || position >= rows) continue;  // zeroes
    const size_t angle = static_cast<size_t>(position) * half + j;
    const size_t first = row * 2 * half + (interleaved ? 2 * j : j);
    const size_t second = first + (interleaved ? 1 : half);
    const double a = w.in(0)[first];
    const double b = w.in(0)[second];
    const double c = w.in(1)[angle];
    const double s = direction * w.in(2)[angle];
    w.out(0)[first] = a * c - b * s;
    w.size(0)[first] = std::abs(a * c) + std::abs(b * s);
    w.out(0)[second] = b * c + a * s;
    w.size(0)[second] = std::abs(b * c) + std::abs(a * s);
  }
}

}  // namespace keel::ops
