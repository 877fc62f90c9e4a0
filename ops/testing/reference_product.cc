// SPDX-License-Identifier: Apache-2.0
// References: many products at once.
#include <cmath>
#include <vector>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {

void batched_matmul_reference(Workspace& w) {
  const auto attributes = w.attributes<keel_op_batched_matmul_attributes>();
  const bool trans_a = attributes.trans_a != 0;
  const bool trans_b = attributes.trans_b != 0;
  const auto m = static_cast<size_t>(w.extent(0, trans_a ? 2 : 1));
  const auto k = static_cast<size_t>(w.extent(0, trans_a ? 1 : 2));
  const auto n = static_cast<size_t>(w.extent(1, trans_b ? 1 : 2));
  const double alpha = attributes.alpha;
  const double beta = attributes.beta;
  std::vector<double> old;
  if (beta != 0) old = read_tensor(*w.call().outputs[0]);
  const double growth = std::sqrt(static_cast<double>(k));
  for (size_t i = 0; i < w.count(); ++i) {
    const size_t each = i / (m * n);
    const size_t row = i / n % m;
    const size_t column = i % n;
    const double* const a = w.in(0).data() + each * m * k;
    const double* const b = w.in(1).data() + each * k * n;
    double sum = 0;
    double size = 0;
    for (size_t l = 0; l < k; ++l) {
      const double term = (trans_a ? a[l * m + row] : a[row * k + l]) *
                          (trans_b ? b[column * k + l] : b[l * n + column]);
      sum += term;
      size += std::abs(term);
    }
    w.out(0)[i] = alpha * sum + (beta != 0 ? beta * old[i] : 0);
    w.size(0)[i] = std::abs(alpha) * growth * size + (beta != 0 ? std::abs(beta * old[i]) : 0);
  }
}

}  // namespace keel::ops
