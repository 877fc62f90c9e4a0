// SPDX-License-Identifier: Apache-2.0
// References: a product with plain or packed weights.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/testing/reference_activation.h"
#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

double activation_of(int64_t activation, double t) {
  return activation == KEEL_ACTIVATION_SILU ? silu(t)
                                            : gelu(activation == KEEL_ACTIVATION_GELU_ERF, t);
}

double activation_slope(int64_t activation, double t) {
  return activation == KEEL_ACTIVATION_SILU ? silu_slope(t)
                                            : gelu_slope(activation == KEEL_ACTIVATION_GELU_ERF, t);
}

double activation_size(int64_t activation, double t) {
  return activation == KEEL_ACTIVATION_SILU ? silu_size(t)
                                            : gelu_size(activation == KEEL_ACTIVATION_GELU_ERF, t);
}

// Replaces the sum |*value| of size |*size| by its activation and the activation's size.
void activate(int64_t activation, double* value, double* size) {
  const double t = *value;
  if (activation == KEEL_ACTIVATION_NONE || std::isnan(t)) return;
  if (std::isinf(t)) {
    *value = activation_of(activation, t);
    *size = 0;
    return;
  }
  // The sum is off by up to 2^-22 of its size; the error of the activation is this times the
  // steepest slope nearby.
  constexpr double kSteepest = 1.13;
  const double off = 0x1p-22 * *size;
  double slope = kSteepest;
  if (off < 0.25) {
    slope = 0;
    for (const double near : {t - off, t, t + off}) {
      slope = std::max(slope, std::abs(activation_slope(activation, near)));
    }
  }
  *value = activation_of(activation, t);
  // The activation's own error is in units of 2^-18.
  *size = slope * *size + 16 * activation_size(activation, t);
}

// Strides of element (l, j) of b.
struct Steps {
  size_t row, column;
};

struct Parameters {
  bool trans_a;
  double alpha, beta;
  int64_t activation;
};

// Multiplies input 0 by input 1, and adds input 2 if present.
void multiply(Workspace& w, const Parameters& p, const Steps& of_b) {
  const auto m = static_cast<size_t>(w.extent(0, p.trans_a ? 1 : 0));
  const auto k = static_cast<size_t>(w.extent(0, p.trans_a ? 0 : 1));
  const auto n = static_cast<size_t>(w.call().outputs[0]->shape[1]);
  const std::vector<double>& a = w.in(0);
  const std::vector<double>& b = w.in(1);
  std::vector<double> old;
  if (p.beta != 0) old = read_tensor(*w.call().outputs[0]);
  const double growth = std::sqrt(static_cast<double>(k));
  std::vector<double> row(n);
  std::vector<double> row_size(n);
  for (size_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), 0);
    std::fill(row_size.begin(), row_size.end(), 0);
    for (size_t l = 0; l < k; ++l) {
      const double left = p.trans_a ? a[l * m + i] : a[i * k + l];
      for (size_t j = 0; j < n; ++j) {
        const double term = left * b[l * of_b.row + j * of_b.column];
        row[j] += term;
        row_size[j] += std::abs(term);
      }
    }
    for (size_t j = 0; j < n; ++j) {
      double value = p.alpha * row[j];
      double size = std::abs(p.alpha) * growth * row_size[j];
      if (p.beta != 0) {
        value += p.beta * old[i * n + j];
        size += std::abs(p.beta * old[i * n + j]);
      }
      if (w.call().inputs[2] != nullptr) {
        value += w.in(2)[j];
        size += std::abs(w.in(2)[j]);
      }
      activate(p.activation, &value, &size);
      w.out(0)[i * n + j] = value;
      w.size(0)[i * n + j] = size;
    }
  }
}

}  // namespace

void matmul_reference(Workspace& w) {
  const auto columns = static_cast<size_t>(w.extent(1, 1));
  const auto attributes = w.attributes<keel_op_matmul_attributes>();
  multiply(w, {attributes.trans_a != 0, attributes.alpha, attributes.beta, attributes.activation},
           attributes.trans_b != 0 ? Steps{1, columns} : Steps{columns, 1});
}

void pack_weights_reference(Workspace& w) {
  const bool trans_b = w.attributes<keel_op_pack_weights_attributes>().trans_b != 0;
  const auto k = static_cast<size_t>(w.extent(0, trans_b ? 1 : 0));
  const auto n = static_cast<size_t>(w.extent(0, trans_b ? 0 : 1));
  const auto row = static_cast<size_t>(w.call().outputs[0]->shape[1]);
  for (size_t l = 0; l < k; ++l) {
    for (size_t j = 0; j < n; ++j) {
      w.out(0)[l * row + j] = w.in(0)[trans_b ? j * k + l : l * n + j];
    }
  }
}

void packed_matmul_reference(Workspace& w) {
  const auto attributes = w.attributes<keel_op_packed_matmul_attributes>();
  multiply(w, {attributes.trans_a != 0, attributes.alpha, attributes.beta, attributes.activation},
           {static_cast<size_t>(w.extent(1, 1)), 1});
}

}  // namespace keel::ops
