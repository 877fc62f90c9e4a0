// SPDX-License-Identifier: Apache-2.0
// References: reduce, gather, scatter.
#include <algorithm>
#include <cmath>
#include <keel/plugin/numbers.hpp>
#include <limits>

#include "ops/testing/reference_functions.h"
#include "ops/testing/reference_workspace.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Row-major position in |tensor| of |index|; axes of extent 1 take every index for 0.
size_t position(const keel_tensor& tensor, const int64_t* index) {
  int64_t at = 0;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    at = at * tensor.shape[axis] + (tensor.shape[axis] == 1 ? 0 : index[axis]);
  }
  return static_cast<size_t>(at);
}

// Calls |visit(index)| with the indices of each element of |tensor|, row-major.
template <typename Visit>
void for_each_index(const keel_tensor& tensor, const Visit& visit) {
  int64_t index[KEEL_MAX_RANK] = {};
  const int64_t count = kit::element_count(tensor);
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (uint32_t axis = tensor.rank; axis-- > 0;) {
      if (++index[axis] < tensor.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

// An element's value, and the size of its operands.
struct Reduced {
  double value;
  double size;
};

// Returns the position of the largest of sign * x: the first NaN, or the first of equals.
size_t position_of_largest(const std::vector<double>& x, double sign) {
  size_t best = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) return i;
    if (sign * x[i] > sign * x[best]) best = i;
  }
  return best;
}

Reduced sum_of(const std::vector<double>& terms) {
  Reduced sum = {0, 0};
  for (const double term : terms) {
    sum.value += term;
    sum.size += std::abs(term);
  }
  sum.size *= std::sqrt(static_cast<double>(terms.size()));
  return sum;
}

template <typename Function>
std::vector<double> mapped(std::vector<double> x, const Function& function) {
  std::ranges::transform(x, x.begin(), function);
  return x;
}

Reduced largest_of(const std::vector<double>& x, double sign) {
  return {x[position_of_largest(x, sign)], 0};
}

Reduced product_of(const std::vector<double>& x) {
  double product = 1;
  for (const double factor : x) product *= factor;
  return {product, std::abs(product) * static_cast<double>(x.size())};
}

Reduced log_sum_exp_of(const std::vector<double>& x) {
  if (x.empty()) return {-kInfinity, 0};
  const double largest = largest_of(x, 1).value;
  if (std::isinf(largest) || std::isnan(largest)) return {largest, 0};
  const Reduced sum = sum_of(mapped(x, [&](double each) { return std::exp(each - largest); }));
  return {largest + std::log(sum.value), std::abs(largest) + sum.size / sum.value};
}

// |x|: the elements of one output, in the row-major order of the reduced axes.
Reduced reduced(int64_t function, const std::vector<double>& x) {
  const auto square = [](double each) { return each * each; };
  const auto magnitude = [](double each) { return std::abs(each); };
  const auto is_true = [](double each) { return each != 0; };
  switch (function) {
    case KEEL_REDUCE_FUNCTION_SUM:
      return sum_of(x);
    case KEEL_REDUCE_FUNCTION_MEAN: {
      const auto count = static_cast<double>(x.size());
      const Reduced sum = sum_of(x);
      return {sum.value / count, sum.size / count};
    }
    case KEEL_REDUCE_FUNCTION_PROD:
      return product_of(x);
    case KEEL_REDUCE_FUNCTION_MAX:
      return largest_of(x, 1);
    case KEEL_REDUCE_FUNCTION_MIN:
      return largest_of(x, -1);
    case KEEL_REDUCE_FUNCTION_ARGMAX:
      return {static_cast<double>(position_of_largest(x, 1)), 0};
    case KEEL_REDUCE_FUNCTION_ARGMIN:
      return {static_cast<double>(position_of_largest(x, -1)), 0};
    case KEEL_REDUCE_FUNCTION_ANY:
      return {std::ranges::any_of(x, is_true) ? 1.0 : 0.0, 0};
    case KEEL_REDUCE_FUNCTION_ALL:
      return {std::ranges::all_of(x, is_true) ? 1.0 : 0.0, 0};
    case KEEL_REDUCE_FUNCTION_SUM_OF_SQUARES:
      return sum_of(mapped(x, square));
    case KEEL_REDUCE_FUNCTION_NORM: {
      const Reduced squares = sum_of(mapped(x, square));
      const double norm = std::sqrt(squares.value);
      return {norm, norm == 0 ? 0 : squares.size / norm};
    }
    case KEEL_REDUCE_FUNCTION_ABS_SUM:
      return sum_of(mapped(x, magnitude));
    case KEEL_REDUCE_FUNCTION_ABS_MAX:
      return x.empty() ? Reduced{0, 0} : largest_of(mapped(x, magnitude), 1);
    default:
      return log_sum_exp_of(x);
  }
}

}  // namespace

void reduce_reference(Workspace& w) {
  const keel_tensor& x = *w.call().inputs[0];
  const keel_tensor& y = *w.call().outputs[0];
  const int64_t function = w.attributes<keel_op_reduce_attributes>().function;
  const keel_dtype computed = kit::compute_dtype(w.call());
  const bool to_integers = kit::is_integer(y.dtype);
  std::vector<std::vector<double>> groups(w.count());
  size_t i = 0;
  for_each_index(x, [&](const int64_t* index) {
    groups[position(y, index)].push_back(round_to_dtype(w.in(0)[i++], computed));
  });
  for (size_t o = 0; o < groups.size(); ++o) {
    const Reduced result = reduced(function, groups[o]);
    w.out(0)[o] = to_integers ? std::trunc(result.value) : result.value;
    w.size(0)[o] = std::isfinite(result.size) ? result.size : 0;
  }
}

void gather_reference(Workspace& w) {
  const keel_tensor& x = *w.call().inputs[0];
  const int64_t axis = w.attributes<keel_op_gather_attributes>().axis;
  size_t i = 0;
  for_each_index(*w.call().outputs[0], [&](const int64_t* index) {
    const double at = w.in(1)[i];
    if (at >= 0 && at < static_cast<double>(x.shape[axis])) {
      int64_t from[KEEL_MAX_RANK];
      std::copy(index, index + KEEL_MAX_RANK, from);
      from[axis] = static_cast<int64_t>(at);
      w.out(0)[i] = w.in(0)[position(x, from)];
    }
    ++i;
  });
}

void scatter_reference(Workspace& w) {
  const keel_tensor& y = *w.call().outputs[0];
  const auto attributes = w.attributes<keel_op_scatter_attributes>();
  const auto axis = attributes.axis;
  const auto add = attributes.add;
  w.out(0) = read_tensor(y);
  for (size_t i = 0; add != 0 && i < w.count(); ++i) w.size(0)[i] = std::abs(w.out(0)[i]);
  std::vector<double> terms(w.count(), 1);
  double rounded = 0;  // squares of the sums after each term
  size_t i = 0;
  for_each_index(*w.call().inputs[0], [&](const int64_t* index) {
    const double at = w.in(1)[i];
    const double x = w.in(0)[i++];
    if (at < 0 || at >= static_cast<double>(y.shape[axis])) return;
    int64_t to[KEEL_MAX_RANK];
    std::copy(index, index + KEEL_MAX_RANK, to);
    to[axis] = static_cast<int64_t>(at);
    const size_t o = position(y, to);
    w.out(0)[o] = add != 0 ? w.out(0)[o] + x : x;
    if (add != 0) w.size(0)[o] += std::abs(x);
    if (std::isfinite(w.out(0)[o])) rounded += w.out(0)[o] * w.out(0)[o];
    terms[o] += 1;
  });
  // 16-bit types may be rounded after each term: half a unit of the sum so far, 2^-11 or 2^-8 of
  // it, against the 2^-20 of the tolerance.
  const double unit = y.dtype == KEEL_BFLOAT16 ? 0x1p12 : y.dtype == KEEL_FLOAT16 ? 0x1p9 : 1;
  for (size_t o = 0; o < w.count(); ++o) w.size(0)[o] *= std::sqrt(terms[o]) * unit;
  double energy = 0;
  for (const double value : w.out(0)) energy += std::isfinite(value) ? value * value : 0;
  if (add != 0 && unit != 1 && energy != 0) w.roundings(0) = std::max(1.0, rounded / energy);
}

}  // namespace keel::ops
