// SPDX-License-Identifier: Apache-2.0
// References: losses over a sharded vocabulary.
#include <cmath>
#include <limits>
#include <span>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

void cross_entropy_shard_reference(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.count(); ++i) {
    const std::span<const double> row(w.in(0).data() + i * v, v);
    double top = -kInfinity;
    for (double logit : row) {
      if (logit > top) top = logit;
    }
    double total = 0;
    double size = 0;
    for (double logit : row) {
      if (logit == -kInfinity) continue;
      const double exponent = logit - top;
      const double term = std::exp(exponent);
      total += term;
      // The exponent is rounded in units of its value; terms below float32's range vanish.
      if (term >= 0x1p-149) size += term * (1 + std::abs(exponent));
    }
    w.out(0)[i] = top;
    w.out(1)[i] = total;
    w.size(1)[i] = size;
    const double column =
        w.in(1)[i] -
        static_cast<double>(w.attributes<keel_op_cross_entropy_shard_attributes>().first);
    if (column < 0 || column >= static_cast<double>(v)) continue;
    w.out(2)[i] = row[static_cast<size_t>(column)];
  }
}

void cross_entropy_shard_backward_reference(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  const double scale = w.attributes<keel_op_cross_entropy_shard_backward_attributes>().scale;
  const auto first =
      static_cast<double>(w.attributes<keel_op_cross_entropy_shard_backward_attributes>().first);
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const double label = w.in(1)[i];
    if (label < 0) continue;
    const double logsumexp = w.in(2)[i];
    for (size_t j = 0; j < v; ++j) {
      const double logit = w.in(0)[i * v + j];
      const double probability = std::exp(logit - logsumexp);
      const double one = first + static_cast<double>(j) == label ? 1 : 0;
      w.out(0)[i * v + j] = scale * (probability - one);
      // The exponent is rounded in units of its operands; masked logits have no exponent.
      const double exponent = probability == 0 ? 0 : 1 + std::abs(logit) + std::abs(logsumexp);
      w.size(0)[i * v + j] = std::abs(scale) * (probability * exponent + one);
    }
  }
}

}  // namespace keel::ops
