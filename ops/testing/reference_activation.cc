// SPDX-License-Identifier: Apache-2.0
// References: activations, alone and with a gate or a bias.
#include "ops/testing/reference_activation.h"

#include <cmath>
#include <limits>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

double sigmoid(double t) {
  return 1 / (1 + std::exp(-t));
}

double silu(double t) {
  return t == -kInfinity ? 0 : t * sigmoid(t);
}

double silu_slope(double t) {
  if (std::isinf(t)) return t < 0 ? 0 : 1;
  const double s = sigmoid(t);
  return s * (1 + t * (1 - s));
}

namespace {

// Growth of a sigmoid's relative error through the rounding of t: e^-t contributes |t|; a sigmoid
// near 1 hardly changes.
double roundings(double t) {
  return std::isinf(t) ? 0 : std::abs(t) * sigmoid(-t);
}

double sigmoid_size(double t) {
  return sigmoid(t) * (1 + roundings(t));
}

// A sigmoid below 2^-125 may become 0 in a product with a t of less than 2^7: 2^-100 in units of
// 2^-18.
constexpr double kFlushedSigmoid = 0x1p-100;

}  // namespace

double silu_size(double t) {
  return (std::isinf(t) ? 0 : std::abs(t) * sigmoid_size(t)) + kFlushedSigmoid;
}

double silu_slope_size(double t) {
  return sigmoid_size(t) * (1 + roundings(t)) + kFlushedSigmoid;
}

namespace {

constexpr double kTanhFactor = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kTanhCubic = 0.044715;
constexpr double kRootHalf = 0.70710678118654752440;
constexpr double kDensityAtZero = 0.39894228040143267794;  // 1 / sqrt(2 pi)

// (1 + tanh(u)) / 2 is the sigmoid of 2u, which keeps its digits in the lower tail.
double twice_u(double t) {
  return 2 * kTanhFactor * (t + kTanhCubic * t * t * t);
}

}  // namespace

double gelu(bool erf, double t) {
  if (t == -kInfinity) return 0;
  return erf ? 0.5 * t * std::erfc(-kRootHalf * t) : t * sigmoid(twice_u(t));
}

double gelu_slope(bool erf, double t) {
  if (std::isinf(t)) return t < 0 ? 0 : 1;
  if (erf) {
    return 0.5 * std::erfc(-kRootHalf * t) + t * kDensityAtZero * std::exp(-0.5 * t * t);
  }
  const double slope_of_twice_u = 2 * kTanhFactor * (1 + 3 * kTanhCubic * t * t);
  const double s = sigmoid(twice_u(t));
  return s + t * s * sigmoid(-twice_u(t)) * slope_of_twice_u;
}

// The size of gelu(t), including the growth of its relative error: the lower tail is an exponential
// of about t^2 roundings. Values below 2^-122 may become 0: 2^-104 in units of 2^-18.
double gelu_size(bool erf, double t) {
  if (std::isinf(t)) return 0x1p-104;
  return std::abs(gelu(erf, t)) * (t < 0 ? 1 + t * t : 1) + 0x1p-104;
}

namespace {

// The size of gelu'(t), where t is a sum of size |terms|.
double gelu_slope_size(double t, double terms) {
  // For |t| >= 6 the slope is constant, 1 or 0, whatever the sum's error.
  return 1 + (std::abs(t) < 6 ? terms + t * t : 0);
}

}  // namespace

void clamp_reference(Workspace& w) {
  const auto [min, max] = w.attributes<keel_op_clamp_attributes>();
  const double low = round_to_dtype(min, KEEL_FLOAT32);
  const double high = round_to_dtype(max, KEEL_FLOAT32);
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const double raised = x < low ? low : x;
    w.out(0)[i] = raised > high ? high : raised;
  }
}

void clamp_backward_reference(Workspace& w) {
  const auto [min, max] = w.attributes<keel_op_clamp_backward_attributes>();
  const double low = round_to_dtype(min, KEEL_FLOAT32);
  const double high = round_to_dtype(max, KEEL_FLOAT32);
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const bool is_cut = x < low || x > high || std::isnan(x);
    w.out(0)[i] = is_cut ? 0 : w.in(1)[i];
  }
}

void gelu_reference(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    w.out(0)[i] = gelu(w.attributes<keel_op_gelu_attributes>().form == KEEL_GELU_FORM_ERF, x);
    // 1 + tanh and 1 + erf cancel for negative arguments.
    w.size(0)[i] = std::isinf(x) ? 0 : std::abs(x);
  }
}

void gelu_backward_reference(Workspace& w) {
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const double dy = w.in(1)[i];
    w.out(0)[i] =
        dy *
        gelu_slope(w.attributes<keel_op_gelu_backward_attributes>().form == KEEL_GELU_FORM_ERF, x);
    w.size(0)[i] = std::abs(dy) * gelu_slope_size(x, std::abs(x));
  }
}

void swiglu_reference(Workspace& w) {
  const auto d = static_cast<size_t>(w.extent(0, 1) / 2);
  for (size_t i = 0; i < w.count(); ++i) {
    const size_t at = i / d * 2 * d + i % d;
    const double gate = w.in(0)[at];
    const double up = w.in(0)[at + d];
    w.out(0)[i] = silu(gate) * up;
    w.size(0)[i] = std::abs(up) * silu_size(gate);
  }
}

void swiglu_backward_reference(Workspace& w) {
  const auto d = static_cast<size_t>(w.extent(0, 1) / 2);
  for (size_t i = 0; i < w.in(1).size(); ++i) {
    const size_t at = i / d * 2 * d + i % d;
    const double gate = w.in(0)[at];
    const double up = w.in(0)[at + d];
    const double dy = w.in(1)[i];
    w.out(0)[at] = dy * up * silu_slope(gate);
    w.size(0)[at] = std::abs(dy * up) * silu_slope_size(gate);
    w.out(0)[at + d] = dy * silu(gate);
    w.size(0)[at + d] = std::abs(dy) * silu_size(gate);
  }
}

void bias_gelu_reference(Workspace& w) {
  const auto d = static_cast<size_t>(w.extent(0, 1));
  const bool biased = w.call().inputs[1] != nullptr;
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const double bias = biased ? w.in(1)[i % d] : 0;
    const bool erf = w.attributes<keel_op_bias_gelu_attributes>().form == KEEL_GELU_FORM_ERF;
    const double t = x + bias;
    w.out(0)[i] = gelu(erf, t);
    w.size(0)[i] = gelu_size(erf, t);
    // The sum may cancel; without a bias t is exact.
    if (biased && std::isfinite(t)) {
      w.size(0)[i] += std::abs(gelu_slope(erf, t)) * (std::abs(x) + std::abs(bias));
    }
  }
}

void bias_gelu_backward_reference(Workspace& w) {
  const auto d = static_cast<size_t>(w.extent(0, 1));
  const bool biased = w.call().inputs[1] != nullptr;
  for (size_t i = 0; i < w.count(); ++i) {
    const double x = w.in(0)[i];
    const double bias = biased ? w.in(1)[i % d] : 0;
    const double dy = w.in(2)[i];
    const double t = x + bias;
    w.out(0)[i] = dy * gelu_slope(w.attributes<keel_op_bias_gelu_backward_attributes>().form ==
                                      KEEL_GELU_FORM_ERF,
                                  t);
    w.size(0)[i] = std::abs(dy) * gelu_slope_size(t, std::abs(x) + std::abs(bias));
  }
}

}  // namespace keel::ops
