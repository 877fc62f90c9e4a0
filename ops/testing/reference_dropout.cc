// SPDX-License-Identifier: Apache-2.0
// References: dropout.
#include <cmath>

#include "ops/testing/philox.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

// Returns the factor of element |i|; both operators have the same attributes.
double factor_of(const Workspace& w, size_t i) {
  const auto attributes = w.attributes<keel_op_dropout_add_attributes>();
  const auto seed = static_cast<uint64_t>(attributes.seed);
  const uint64_t counter = static_cast<uint64_t>(attributes.offset) + i / 4;
  const uint32_t word =
      philox4x32({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[i % 4];
  return word >= std::floor(attributes.p * 0x1p32) ? 1 / (1 - attributes.p) : 0;
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
