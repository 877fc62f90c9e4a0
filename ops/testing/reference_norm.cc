// SPDX-License-Identifier: Apache-2.0
// References: row normalisations and softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

size_t last_extent(const keel_tensor& tensor) {
  return static_cast<size_t>(tensor.shape[tensor.rank - 1]);
}

// Growth of the rounding error of a sum of |terms|.
double growth_of(size_t terms) {
  return std::sqrt(static_cast<double>(terms));
}

// The mean of term(j), j in [0, count).
template <typename Term>
double mean_of(size_t count, const Term& term) {
  double sum = 0;
  for (size_t j = 0; j < count; ++j) sum += term(j);
  return sum / static_cast<double>(count);
}

// The reciprocal root adds a few roundings to those of the sum.
double rstd_size(double rstd, size_t columns) {
  return (2 + growth_of(columns)) * rstd;
}

}  // namespace

void layer_norm_reference(Workspace& w) {
  const size_t columns = last_extent(*w.call().inputs[0]);
  const double eps = w.attributes<keel_op_layer_norm_attributes>().eps;
  for (size_t row = 0; row < w.out(1).size(); ++row) {
    const double* x = w.in(0).data() + row * columns;
    const double mean = mean_of(columns, [&](size_t j) { return x[j]; });
    const double mean_size =
        growth_of(columns) * mean_of(columns, [&](size_t j) { return std::abs(x[j]); });
    const double variance =
        mean_of(columns, [&](size_t j) { return (x[j] - mean) * (x[j] - mean); });
    const double rstd = 1 / std::sqrt(variance + eps);
    w.out(1)[row] = mean;
    w.size(1)[row] = mean_size;
    w.out(2)[row] = rstd;
    w.size(2)[row] = rstd_size(rstd, columns);
    for (size_t j = 0; j < columns; ++j) {
      const double gamma = w.in(1)[j];
      const double beta = w.call().inputs[2] == nullptr ? 0 : w.in(2)[j];
      const double centered = x[j] - mean;
      w.out(0)[row * columns + j] = centered * rstd * gamma + beta;
      w.size(0)[row * columns + j] =
          ((std::abs(x[j]) + mean_size) * rstd + std::abs(centered) * w.size(2)[row]) *
              std::abs(gamma) +
          std::abs(beta);
    }
  }
}

void rms_norm_reference(Workspace& w) {
  const size_t columns = last_extent(*w.call().inputs[0]);
  const double eps = w.attributes<keel_op_rms_norm_attributes>().eps;
  for (size_t row = 0; row < w.out(1).size(); ++row) {
    const double* x = w.in(0).data() + row * columns;
    const double square = mean_of(columns, [&](size_t j) { return x[j] * x[j]; });
    const double rstd = 1 / std::sqrt(square + eps);
    w.out(1)[row] = rstd;
    w.size(1)[row] = rstd_size(rstd, columns);
    for (size_t j = 0; j < columns; ++j) {
      const double gamma = w.in(1)[j];
      w.out(0)[row * columns + j] = x[j] * rstd * gamma;
      w.size(0)[row * columns + j] = std::abs(x[j] * gamma) * w.size(1)[row];
    }
  }
}

namespace {

// Both backward passes: without a mean, the means of x and g are 0.
void norm_backward_reference(Workspace& w, const std::vector<double>* means,
                             const std::vector<double>& rstds) {
  const size_t columns = last_extent(*w.call().inputs[0]);
  const double growth = growth_of(columns);
  for (size_t row = 0; row < rstds.size(); ++row) {
    const double* dy = w.in(0).data() + row * columns;
    const double* x = w.in(1).data() + row * columns;
    const double mean = means == nullptr ? 0 : (*means)[row];
    const double rstd = rstds[row];
    const auto g = [&](size_t j) { return dy[j] * w.in(2)[j]; };
    const auto xhat = [&](size_t j) { return (x[j] - mean) * rstd; };
    double mean_g = 0;
    double mean_g_size = 0;
    if (means != nullptr) {
      mean_g = mean_of(columns, g);
      mean_g_size = (1 + growth) * mean_of(columns, [&](size_t j) { return std::abs(g(j)); });
    }
    const double slope = mean_of(columns, [&](size_t j) { return g(j) * xhat(j); });
    const double slope_size =
        (2 + growth) * mean_of(columns, [&](size_t j) { return std::abs(g(j) * xhat(j)); });
    for (size_t j = 0; j < columns; ++j) {
      w.out(0)[row * columns + j] = rstd * (g(j) - mean_g - xhat(j) * slope);
      w.size(0)[row * columns + j] =
          std::abs(rstd) * (std::abs(g(j)) + mean_g_size + std::abs(xhat(j)) * slope_size);
      w.out(1)[j] += dy[j] * xhat(j);
      w.size(1)[j] += std::abs(dy[j] * xhat(j));
      if (means == nullptr) continue;
      w.out(2)[j] += dy[j];
      w.size(2)[j] += std::abs(dy[j]);
    }
  }
  for (uint32_t o = 1; o < w.call().output_count; ++o) {
    for (double& size : w.size(o)) size *= growth_of(rstds.size());
  }
}

}  // namespace

void layer_norm_backward_reference(Workspace& w) {
  norm_backward_reference(w, &w.in(3), w.in(4));
}

void rms_norm_backward_reference(Workspace& w) {
  norm_backward_reference(w, nullptr, w.in(3));
}

void softmax_reference(Workspace& w) {
  const keel_tensor& shape = *w.call().inputs[0];
  const size_t n = last_extent(shape);
  const auto m = static_cast<size_t>(shape.shape[shape.rank - 2]);
  const double scale = w.attributes<keel_op_softmax_attributes>().scale;
  const bool is_causal = w.attributes<keel_op_softmax_attributes>().causal != 0;
  const std::vector<double>& mask = w.in(1);  // empty if absent
  std::vector<double> z(n);
  for (size_t begin = 0; begin < w.count(); begin += n) {
    const size_t i = begin / n % m;
    double top = -kInfinity;
    for (size_t j = 0; j < n; ++j) {
      const bool is_hidden =
          (is_causal && j + m > i + n) || (!mask.empty() && mask[(begin + j) % mask.size()] != 0);
      z[j] = is_hidden ? -kInfinity : scale * w.in(0)[begin + j];
      if (z[j] > top) top = z[j];
    }
    // If all are minus infinity, nothing is added. NaN is added, although NaN is never the largest.
    double sum = 0;
    double sum_size = 0;
    for (size_t j = 0; j < n; ++j) {
      if (z[j] == -kInfinity) continue;
      const double term = std::exp(z[j] - top);
      sum += term;
      if (term != 0) sum_size += term * (std::abs(z[j]) + std::abs(top));
    }
    for (size_t j = 0; j < n; ++j) {
      if (z[j] == -kInfinity) continue;
      const double y = std::exp(z[j] - top) / sum;
      w.out(0)[begin + j] = y;
      // Exponents are rounded in units of their operands.
      if (y != 0) {
        w.size(0)[begin + j] = y * (1 + std::abs(z[j]) + std::abs(top) + sum_size / sum);
      }
    }
  }
}

void softmax_backward_reference(Workspace& w) {
  const size_t n = last_extent(*w.call().inputs[0]);
  const double scale = w.attributes<keel_op_softmax_backward_attributes>().scale;
  for (size_t begin = 0; begin < w.count(); begin += n) {
    const double* y = w.in(0).data() + begin;
    const double* dy = w.in(1).data() + begin;
    double dot = 0;
    double dot_size = 0;
    for (size_t j = 0; j < n; ++j) {
      dot += y[j] * dy[j];
      dot_size += std::abs(y[j] * dy[j]);
    }
    dot_size *= growth_of(n);
    for (size_t j = 0; j < n; ++j) {
      w.out(0)[begin + j] = scale * y[j] * (dy[j] - dot);
      w.size(0)[begin + j] = std::abs(scale * y[j]) * (std::abs(dy[j]) + dot_size);
    }
  }
}

}  // namespace keel::ops
