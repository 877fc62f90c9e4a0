// SPDX-License-Identifier: Apache-2.0
// References: sums, tables, losses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// From this value on, a logsumexp in float32, and with it the probabilities, is rounded by more
// than 2^-19.
constexpr double kLargeLogSumExp = 64;
// Relative difference up to which a logsumexp is taken for its row's: cross_entropy itself may be
// off by 2^-18.
constexpr double kRoundedLogSumExp = 0x1p-17;

// A row's sum of e^logit, as e^top times |total|.
struct RowSum {
  explicit RowSum(std::span<const double> row) {
    // NaN counts as largest, so that a row with a NaN is not taken for a row of minus infinities.
    for (double logit : row) {
      if (!std::isnan(top) && !(logit <= top)) top = logit;
    }
    double total = 0;
    for (double logit : row) total += std::exp(logit - top);
    log_of_total = std::log(total);
  }
  double top = -kInfinity;
  double log_of_total = 0;
};

}  // namespace

void sum_reference(Workspace& w) {
  const int64_t rows = w.extent(0, 0);
  const int64_t cols = w.extent(0, 1);
  const int64_t axis = w.attributes<keel_op_sum_attributes>().axis;
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

void embedding_reference(Workspace& w) {
  const int64_t v = w.extent(0, 0);
  const auto d = static_cast<size_t>(w.extent(0, 1));
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const int64_t row =
        static_cast<int64_t>(w.in(1)[i]) - w.attributes<keel_op_embedding_attributes>().first;
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
    const int64_t offset = static_cast<int64_t>(w.in(1)[i]) -
                           w.attributes<keel_op_embedding_backward_attributes>().first;
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
    const RowSum sum(row);
    const double logsumexp = sum.top == -kInfinity ? sum.top : sum.top + sum.log_of_total;
    w.out(1)[i] = logsumexp;
    w.size(1)[i] = std::abs(sum.top) + std::abs(sum.log_of_total) + 1;
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
    const std::span<const double> row(w.in(0).data() + i * v, v);
    const double logsumexp = w.in(2)[i];
    const RowSum sum(row);
    const bool is_of_row = std::abs(logsumexp) >= kLargeLogSumExp &&
                           std::abs(logsumexp - (sum.top + sum.log_of_total)) <
                               kRoundedLogSumExp * std::abs(logsumexp);
    for (size_t j = 0; j < v; ++j) {
      const double logit = row[j];
      const double probability =
          std::exp(is_of_row ? (logit - sum.top) - sum.log_of_total : logit - logsumexp);
      const double one = j == static_cast<size_t>(label) ? 1 : 0;
      w.out(0)[i * v + j] =
          w.attributes<keel_op_cross_entropy_backward_attributes>().scale * (probability - one);
      // The exponent is rounded in units of its operands; masked logits have no exponent.
      const double operands = is_of_row ? std::abs(logit - sum.top) + std::abs(sum.log_of_total)
                                        : std::abs(logit) + std::abs(logsumexp);
      const double exponent = probability == 0 ? 0 : 1 + operands;
      w.size(0)[i * v + j] =
          std::abs(w.attributes<keel_op_cross_entropy_backward_attributes>().scale) *
          (probability * exponent + one);
    }
  }
}

}  // namespace keel::ops
