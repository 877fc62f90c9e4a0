// SPDX-License-Identifier: Apache-2.0
// References: 8-bit floats with a scale.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

// Returns infinity for types that overflow to infinity.
double largest_of(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT8_E4M3FN:
      return 448;
    case KEEL_FLOAT8_E5M2:
      return 57344;
    default:
      return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

void cast_scaled_reference(Workspace& w) {
  const auto scale = static_cast<float>(w.in(1)[0]);
  const double largest = largest_of(w.call().outputs[0]->dtype);
  double amax = 0;
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    // std::clamp passes NaN through.
    const float product = static_cast<float>(x) * scale;
    w.out(0)[i] = std::clamp(static_cast<double>(product), -largest, largest);
    if (!(std::abs(x) <= amax) && !std::isnan(amax)) amax = std::abs(x);
  }
  w.out(1)[0] = amax;
}

}  // namespace keel::ops
