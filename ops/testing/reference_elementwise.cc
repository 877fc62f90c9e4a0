// SPDX-License-Identifier: Apache-2.0
// References: elementwise operators.
#include <algorithm>
#include <cmath>
#include <keel/plugin/numbers.hpp>

#include "ops/testing/conversions.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

// out = alpha * x + beta * y
void combine(Workspace& w, double alpha, const std::vector<double>& x, double beta,
             const std::vector<double>& y) {
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = alpha * x[i] + beta * y[i];
    w.size(0)[i] = std::abs(alpha * x[i]) + std::abs(beta * y[i]);
  }
}

}  // namespace

void fill_reference(Workspace& w) {
  const double value =
      round_to_dtype(w.attributes<keel_op_fill_attributes>().value, w.call().outputs[0]->dtype);
  std::fill(w.out(0).begin(), w.out(0).end(), value);
}

void cast_reference(Workspace& w) {
  const keel_tensor& x = *w.call().inputs[0];
  const keel_dtype to = w.call().outputs[0]->dtype;
  if (!kit::is_integer(x.dtype)) {
    for (size_t i = 0; i < w.count(); ++i) {
      const double value = w.in(0)[i];
      w.out(0)[i] =
          kit::is_integer(to) ? truncate_to_dtype(value, to) : round_once_to_dtype(value, to);
    }
    return;
  }
  const std::vector<int64_t> values = read_integers(x);
  const keel_dtype computed = to == KEEL_FLOAT64 ? KEEL_FLOAT64 : KEEL_FLOAT32;
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = kit::is_integer(to) ? wrap_to_dtype(values[i], to)
                                      : round_to_dtype(round_integer(values[i], computed), to);
  }
}

void scale_reference(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    w.out(0)[i] = w.attributes<keel_op_scale_attributes>().alpha * w.in(0)[i];
    w.size(0)[i] = std::abs(w.out(0)[i]);
  }
}

void adamw_reference(Workspace& w) {
  const auto [lr, beta1, beta2, eps, decay, t, grad_scale] =
      w.attributes<keel_op_adamw_attributes>();
  const auto step = static_cast<double>(t);
  const double correction1 = 1 - std::pow(beta1, step);
  const double correction2 = 1 - std::pow(beta2, step);
  for (size_t i = 0; i < w.count(); ++i) {
    const double p = w.in(0)[i];
    const double g = w.in(1)[i] * grad_scale;
    const double m = beta1 * w.in(2)[i] + (1 - beta1) * g;
    const double m_size = std::abs(beta1 * w.in(2)[i]) + std::abs((1 - beta1) * g);
    const double v = beta2 * w.in(3)[i] + (1 - beta2) * g * g;
    const double rate = lr / (std::sqrt(v / correction2) + eps) / correction1;
    w.out(0)[i] = p - (m * rate + lr * decay * p);
    w.size(0)[i] = std::abs(p) + m_size * rate + lr * decay * std::abs(p);
    w.out(1)[i] = m;
    w.size(1)[i] = m_size;
    w.out(2)[i] = v;
    w.size(2)[i] = std::abs(v);
  }
}

void add_reference(Workspace& w) {
  combine(w, 1, w.in(0), 1, w.in(1));
}

void axpy_reference(Workspace& w) {
  combine(w, w.attributes<keel_op_axpy_attributes>().alpha, w.in(0), 1, w.in(1));
}

}  // namespace keel::ops
