// SPDX-License-Identifier: Apache-2.0
// References: gradient norms and clipping.
#include <cmath>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {

void sum_of_squares_reference(Workspace& w) {
  double total = 0;
  bool found = false;
  if (w.call().inputs[1] != nullptr) {
    total = w.in(1)[0];
    found = !std::isfinite(total);
  }
  double size = std::abs(total);
  for (double value : w.in(0)) {
    total += value * value;
    size += value * value;
    found |= !std::isfinite(value);
  }
  w.out(0)[0] = total;
  w.size(0)[0] = size;
  w.out(1)[0] = found ? 1 : 0;
}

void clip_reference(Workspace& w) {
  double factor = w.attributes<keel_op_clip_attributes>().max_norm / (std::sqrt(w.in(1)[0]) + 1e-6);
  if (factor > 1) factor = 1;  // NaN stays
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = w.in(0)[i] * factor;
    w.size(0)[i] = std::abs(w.out(0)[i]);
  }
}

}  // namespace keel::ops
