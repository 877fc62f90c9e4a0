// References: sums, products, tables, losses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ops/reference_activation.h"
#include "ops/reference_functions.h"
#include "ops/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// ---- matmul's activations, by their numbers

enum { kNoActivation, kGeluByTanh, kGeluByErf, kSilu };

double activation_of(int64_t activation, double t) {
  return activation == kSilu ? t * sigmoid(t) : gelu(activation == kGeluByErf, t);
}

double activation_slope(int64_t activation, double t) {
  if (activation != kSilu) return gelu_slope(activation == kGeluByErf, t);
  return sigmoid(t) * (1 + t * sigmoid(-t));
}

double activation_size(int64_t activation, double t) {
  return activation == kSilu ? std::abs(t) * sigmoid_size(t)
                             : gelu_size(activation == kGeluByErf, t);
}

// The activation of a sum |*value| of size |*size| in the places of both.
void activate(int64_t activation, double* value, double* size) {
  const double t = *value;
  if (activation == kNoActivation || std::isnan(t)) return;
  if (std::isinf(t)) {
    *value = t < 0 ? 0 : t;  // the limits
    *size = 0;
    return;
  }
  // The sum is off by up to 2^-22 of its size: as far as its activation is steep nearby.
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
  // Its own error is in units of 2^-18.
  *size = slope * *size + 16 * activation_size(activation, t);
}

}  // namespace

void sum_reference(Workspace& w) {
  const int64_t rows = w.extent(0, 0);
  const int64_t cols = w.extent(0, 1);
  const int64_t axis = w.integer(0);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      const auto to = static_cast<size_t>(axis == 0 ? col : axis == 1 ? row : 0);
      const double value = w.in(0)[static_cast<size_t>(row * cols + col)];
      w.out(0)[to] += value;
      w.size(0)[to] += std::abs(value);
    }
  }
  const int64_t terms = axis == 0 ? rows : axis == 1 ? cols : rows * cols;
  for (double& size : w.size(0)) size *= std::sqrt(static_cast<double>(terms));
}

void matmul_reference(Workspace& w) {
  const bool trans_a = w.integer(0) != 0;
  const bool trans_b = w.integer(1) != 0;
  const auto m = static_cast<size_t>(w.extent(0, trans_a ? 1 : 0));
  const auto k = static_cast<size_t>(w.extent(0, trans_a ? 0 : 1));
  const auto n = static_cast<size_t>(w.extent(1, trans_b ? 0 : 1));
  const double alpha = w.real(2);
  const double beta = w.real(3);
  const std::vector<double>& a = w.in(0);
  const std::vector<double>& b = w.in(1);
  std::vector<double> old;
  if (beta != 0) old = read_tensor(*w.call().outputs[0]);
  const double growth = std::sqrt(static_cast<double>(k));
  std::vector<double> row(n);
  std::vector<double> row_size(n);
  for (size_t i = 0; i < m; ++i) {
    std::fill(row.begin(), row.end(), 0);
    std::fill(row_size.begin(), row_size.end(), 0);
    for (size_t l = 0; l < k; ++l) {
      const double left = trans_a ? a[l * m + i] : a[i * k + l];
      for (size_t j = 0; j < n; ++j) {
        const double term = left * (trans_b ? b[j * k + l] : b[l * n + j]);
        row[j] += term;
        row_size[j] += std::abs(term);
      }
    }
    for (size_t j = 0; j < n; ++j) {
      double value = alpha * row[j];
      double size = std::abs(alpha) * growth * row_size[j];
      if (beta != 0) {
        value += beta * old[i * n + j];
        size += std::abs(beta * old[i * n + j]);
      }
      if (w.call().inputs[2] != nullptr) {
        value += w.in(2)[j];
        size += std::abs(w.in(2)[j]);
      }
      activate(w.integer(4), &value, &size);
      w.out(0)[i * n + j] = value;
      w.size(0)[i * n + j] = size;
    }
  }
}

void embedding_reference(Workspace& w) {
  const int64_t v = w.extent(0, 0);
  const auto d = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const int64_t row = static_cast<int64_t>(w.in(1)[i]) - w.integer(0);
    if (row < 0 || row >= v) continue;
    const double* from = w.in(0).data() + static_cast<size_t>(row) * d;
    std::copy(from, from + d, w.out(0).begin() + static_cast<ptrdiff_t>(i * d));
  }
}

void embedding_backward_reference(Workspace& w) {
  const int64_t v = w.call().outputs[0]->shape[0];
  const auto d = static_cast<size_t>(w.extent(0, 1));
  std::vector<double> terms(static_cast<size_t>(v), 0);
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const int64_t offset = static_cast<int64_t>(w.in(1)[i]) - w.integer(0);
    if (offset < 0 || offset >= v) continue;
    const auto row = static_cast<size_t>(offset);
    terms[row] += 1;
    for (size_t j = 0; j < d; ++j) {
      w.out(0)[row * d + j] += w.in(0)[i * d + j];
      w.size(0)[row * d + j] += std::abs(w.in(0)[i * d + j]);
    }
  }
  for (size_t i = 0; i < w.count(); ++i) w.size(0)[i] *= std::sqrt(terms[i / d]);
}

void cross_entropy_reference(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.count(); ++i) {
    const std::span<const double> row(w.in(0).data() + i * v, v);
    // NaN is the largest: a row that has one is not taken for one of minus infinity alone.
    double top = -kInfinity;
    for (double logit : row) {
      if (!std::isnan(top) && !(logit <= top)) top = logit;
    }
    double total = 0;
    for (double logit : row) total += std::exp(logit - top);
    const double logsumexp = top == -kInfinity ? top : top + std::log(total);
    w.out(1)[i] = logsumexp;
    w.size(1)[i] = std::abs(top) + std::abs(std::log(total)) + 1;
    const double label = w.in(1)[i];
    if (label < 0 || label >= static_cast<double>(v)) continue;
    const double logit = row[static_cast<size_t>(label)];
    w.out(0)[i] = logsumexp - logit;
    w.size(0)[i] = w.size(1)[i] + std::abs(logit);
  }
}

void cross_entropy_backward_reference(Workspace& w) {
  const auto v = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const double label = w.in(1)[i];
    if (label < 0 || label >= static_cast<double>(v)) continue;
    const double logsumexp = w.in(2)[i];
    for (size_t j = 0; j < v; ++j) {
      const double logit = w.in(0)[i * v + j];
      const double probability = std::exp(logit - logsumexp);
      const double one = j == static_cast<size_t>(label) ? 1 : 0;
      w.out(0)[i * v + j] = w.real(0) * (probability - one);
      // The exponent is rounded in units of its operands; a masked logit has none.
      const double exponent = probability == 0 ? 0 : 1 + std::abs(logit) + std::abs(logsumexp);
      w.size(0)[i * v + j] = std::abs(w.real(0)) * (probability * exponent + one);
    }
  }
}

}  // namespace keel::ops
