// SPDX-License-Identifier: Apache-2.0
// References: dropout.
#include <cmath>

#include "ops/testing/philox.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

// Both operators have the same attributes.
double factor_of(const Workspace& w, size_t i) {
  return dropout_factor(w.attributes<keel_op_dropout_add_attributes>(), i);
}

}  // namespace

void dropout_add_reference(Workspace& w) {
  const std::vector<double>& bias = w.in(1);
  const std::vector<double>& residual = w.in(2);
  for (size_t i = 0; i < w.count(); ++i) {
    const double offset = bias.empty() ? 0 : bias[i % bias.size()];
    const double base = residual.empty() ? 0 : residual[i];
    const double factor = factor_of(w, i);
    const double x = w.in(0)[i];
    // A dropped element is 0, even if NaN.
    w.out(0)[i] = factor == 0 ? base : base + factor * (x + offset);
    w.size(0)[i] =
        factor == 0 ? std::abs(base) : std::abs(base) + factor * (std::abs(x) + std::abs(offset));
  }
}

void dropout_backward_reference(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    const double factor = factor_of(w, i);
    w.out(0)[i] = factor == 0 ? 0 : factor * w.in(0)[i];
    w.size(0)[i] = std::abs(w.out(0)[i]);
  }
}

}  // namespace keel::ops
