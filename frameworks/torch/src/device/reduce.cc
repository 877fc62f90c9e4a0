// SPDX-License-Identifier: Apache-2.0
// PyTorch's reductions by Keel's reduce.
#include "reduce.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <torch/library.h>

#include <algorithm>
#include <bitset>
#include <cmath>

#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

#define KEEL_FUNCTION(NAME) KEEL_REDUCE_FUNCTION_##NAME

bool is_reducible(at::ScalarType type) {
  const keel_dtype dtype = dtype_of(type);
  return dtype == KEEL_UINT8 || (dtype >= KEEL_INT8 && dtype <= KEEL_INT64) ||
         dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16 || dtype == KEEL_FLOAT32 ||
         dtype == KEEL_FLOAT64;
}

bool needs_elements(int64_t function) {
  return function == KEEL_FUNCTION(MAX) || function == KEEL_FUNCTION(MIN) ||
         function == KEEL_FUNCTION(ARGMAX) || function == KEEL_FUNCTION(ARGMIN);
}

}  // namespace

std::optional<at::Tensor> reduce(int64_t function, const at::Tensor& x,
                                 at::OptionalIntArrayRef dims, bool keeps_dims,
                                 at::ScalarType type) {
  if (!is_reducible(x.scalar_type()) || !is_reducible(type) || x.dim() > KEEL_MAX_RANK ||
      x.is_neg() || x.device().type() != kType) {
    return std::nullopt;
  }
  const auto is_reduced = dims.has_value() && !dims->empty()
                              ? at::dim_list_to_bitset(*dims, x.dim())
                              : std::bitset<at::dim_bitset_size>().flip();
  at::DimVector kept;
  at::DimVector dropped;
  for (int64_t i = 0; i < x.dim(); ++i) {
    kept.push_back(is_reduced[i] ? 1 : x.size(i));
    if (!is_reduced[i]) dropped.push_back(x.size(i));
  }
  at::Tensor y = at::empty(kept, x.options().dtype(type));
  if (y.numel() != 0) {
    if (x.numel() == 0 && needs_elements(function)) return std::nullopt;
    const View in(x);
    const View out(y);
    if (!run(x.device().index(), KEEL_OP_REDUCE, {&in}, {&out},
             keel_op_reduce_attributes{function})) {
      return std::nullopt;
    }
  }
  return keeps_dims ? y : y.view(dropped);
}

namespace {

using at::Tensor;
using OptionalDims = at::OptionalIntArrayRef;
using OptionalType = std::optional<at::ScalarType>;

at::ScalarType sum_type(const Tensor& self, OptionalType type) {
  if (type.has_value()) return *type;
  return at::isIntegralType(self.scalar_type(), true) ? at::kLong : self.scalar_type();
}

Tensor with_input_type(const Tensor& self, OptionalType type) {
  // A narrower type rounds before the reduction.
  return type.has_value() && at::isIntegralType(*type, true) &&
                 !at::isIntegralType(self.scalar_type(), true)
             ? self.to(*type)
             : self;
}

// The sum of bools is `or`, their product `and`.
int64_t function_for(int64_t function, at::ScalarType result) {
  if (result != at::kBool) return function;
  return function == KEEL_FUNCTION(SUM) ? KEEL_FUNCTION(ANY) : KEEL_FUNCTION(ALL);
}

// The sum or product |function| of |self|, in |type| if it has a value.
std::optional<Tensor> total(int64_t function, const Tensor& self, OptionalDims dims, bool keeps,
                            OptionalType type) {
  const at::ScalarType result = sum_type(self, type);
  return reduce(function_for(function, result), with_input_type(self, type), dims, keeps, result);
}

Tensor sum_dim(const Tensor& self, OptionalDims dims, bool keeps, OptionalType type) {
  auto y = total(KEEL_FUNCTION(SUM), self, dims, keeps, type);
  return y.has_value() ? *y : KEEL_FALL_BACK2(sum, dim_IntList, self, dims, keeps, type);
}

Tensor sum_all(const Tensor& self, OptionalType type) {
  return sum_dim(self, std::nullopt, false, type);
}

Tensor mean_dim(const Tensor& self, OptionalDims dims, bool keeps, OptionalType type) {
  const at::ScalarType result = type.value_or(self.scalar_type());
  TORCH_CHECK(
      at::isFloatingType(result) || at::isComplexType(result),
      "mean(): could not infer output dtype. Input dtype must be either a floating point or "
      "complex dtype. Got: ",
      result);
  auto y = reduce(KEEL_FUNCTION(MEAN), self, dims, keeps, result);
  return y.has_value() ? *y : KEEL_FALL_BACK2(mean, dim, self, dims, keeps, type);
}

Tensor mean_all(const Tensor& self, OptionalType type) {
  return mean_dim(self, std::nullopt, false, type);
}

Tensor prod_dim(const Tensor& self, int64_t dim, bool keeps, OptionalType type) {
  auto y = total(KEEL_FUNCTION(PROD), self, at::IntArrayRef(dim), keeps, type);
  return y.has_value() ? *y : KEEL_FALL_BACK2(prod, dim_int, self, dim, keeps, type);
}

Tensor prod_all(const Tensor& self, OptionalType type) {
  auto y = total(KEEL_FUNCTION(PROD), self, std::nullopt, false, type);
  return y.has_value() ? *y : KEEL_FALL_BACK(prod, self, type);
}

Tensor amax(const Tensor& self, at::IntArrayRef dims, bool keeps) {
  auto y = reduce(KEEL_FUNCTION(MAX), self, dims, keeps, self.scalar_type());
  return y.has_value() ? *y : KEEL_FALL_BACK(amax, self, dims, keeps);
}

Tensor amin(const Tensor& self, at::IntArrayRef dims, bool keeps) {
  auto y = reduce(KEEL_FUNCTION(MIN), self, dims, keeps, self.scalar_type());
  return y.has_value() ? *y : KEEL_FALL_BACK(amin, self, dims, keeps);
}

Tensor max_all(const Tensor& self) {
  auto y = reduce(KEEL_FUNCTION(MAX), self, std::nullopt, false, self.scalar_type());
  return y.has_value() ? *y : KEEL_FALL_BACK(max, self);
}

Tensor min_all(const Tensor& self) {
  auto y = reduce(KEEL_FUNCTION(MIN), self, std::nullopt, false, self.scalar_type());
  return y.has_value() ? *y : KEEL_FALL_BACK(min, self);
}

std::tuple<Tensor, Tensor> max_dim(const Tensor& self, int64_t dim, bool keeps) {
  auto y = reduce(KEEL_FUNCTION(MAX), self, at::IntArrayRef(dim), keeps, self.scalar_type());
  auto index = y.has_value()
                   ? reduce(KEEL_FUNCTION(ARGMAX), self, at::IntArrayRef(dim), keeps, at::kLong)
                   : std::nullopt;
  if (index.has_value()) return {*y, *index};
  return KEEL_FALL_BACK2(max, dim, self, dim, keeps);
}

std::tuple<Tensor, Tensor> min_dim(const Tensor& self, int64_t dim, bool keeps) {
  auto y = reduce(KEEL_FUNCTION(MIN), self, at::IntArrayRef(dim), keeps, self.scalar_type());
  auto index = y.has_value()
                   ? reduce(KEEL_FUNCTION(ARGMIN), self, at::IntArrayRef(dim), keeps, at::kLong)
                   : std::nullopt;
  if (index.has_value()) return {*y, *index};
  return KEEL_FALL_BACK2(min, dim, self, dim, keeps);
}

// Without a dim, the index among all elements; keepdim then keeps every dimension as 1.
std::optional<Tensor> arg(int64_t function, const Tensor& self, std::optional<int64_t> dim,
                          bool keeps) {
  if (self.scalar_type() == at::kBool) return std::nullopt;
  if (dim.has_value()) return reduce(function, self, at::IntArrayRef(*dim), keeps, at::kLong);
  return reduce(function, self, std::nullopt, keeps, at::kLong);
}

Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keeps) {
  auto y = arg(KEEL_FUNCTION(ARGMAX), self, dim, keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK(argmax, self, dim, keeps);
}

Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keeps) {
  auto y = arg(KEEL_FUNCTION(ARGMIN), self, dim, keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK(argmin, self, dim, keeps);
}

at::ScalarType logic_type(const Tensor& self) {
  return self.scalar_type() == at::kByte ? at::kByte : at::kBool;
}

// An empty list of axes means none here, where the other reductions take all.
std::optional<Tensor> logic(int64_t function, const Tensor& self, OptionalDims dims, bool keeps) {
  if (dims.has_value() && dims->empty()) return self.ne(0).to(logic_type(self));
  return reduce(function, self, dims, keeps, logic_type(self));
}

Tensor any_all(const Tensor& self) {
  auto y = logic(KEEL_FUNCTION(ANY), self, std::nullopt, false);
  return y.has_value() ? *y : KEEL_FALL_BACK(any, self);
}
Tensor any_dim(const Tensor& self, int64_t dim, bool keeps) {
  auto y = logic(KEEL_FUNCTION(ANY), self, at::IntArrayRef(dim), keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK2(any, dim, self, dim, keeps);
}
Tensor any_dims(const Tensor& self, OptionalDims dims, bool keeps) {
  auto y = logic(KEEL_FUNCTION(ANY), self, dims, keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK2(any, dims, self, dims, keeps);
}
Tensor all_all(const Tensor& self) {
  auto y = logic(KEEL_FUNCTION(ALL), self, std::nullopt, false);
  return y.has_value() ? *y : KEEL_FALL_BACK(all, self);
}
Tensor all_dim(const Tensor& self, int64_t dim, bool keeps) {
  auto y = logic(KEEL_FUNCTION(ALL), self, at::IntArrayRef(dim), keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK2(all, dim, self, dim, keeps);
}
Tensor all_dims(const Tensor& self, OptionalDims dims, bool keeps) {
  auto y = logic(KEEL_FUNCTION(ALL), self, dims, keeps);
  return y.has_value() ? *y : KEEL_FALL_BACK2(all, dims, self, dims, keeps);
}

Tensor vector_norm(const Tensor& self, const at::Scalar& order, OptionalDims dims, bool keeps,
                   OptionalType type) {
  const double p = order.toDouble();
  const int64_t function = p == 2          ? KEEL_FUNCTION(NORM)
                           : p == 1        ? KEEL_FUNCTION(ABS_SUM)
                           : p == INFINITY ? KEEL_FUNCTION(ABS_MAX)
                                           : -1;
  if (function >= 0 && at::isFloatingType(self.scalar_type()) &&
      !(self.numel() == 0 && p == INFINITY) && (!type.has_value() || at::isFloatingType(*type))) {
    auto y = reduce(function, self, dims, keeps, type.value_or(self.scalar_type()));
    if (y.has_value()) return *y;
  }
  const bool is_float = at::isFloatingType(self.scalar_type()) && self.numel() != 0 &&
                        (!type.has_value() || at::isFloatingType(*type));
  if (is_float) {
    // 16 bits would round each power.
    const at::ScalarType result = type.value_or(self.scalar_type());
    const Tensor x = self.abs().to(
        self.scalar_type() == at::kDouble || result == at::kDouble ? at::kDouble : at::kFloat);
    const at::IntArrayRef axes = dims.has_value() ? *dims : at::IntArrayRef();
    const Tensor y = p == 0           ? x.ne(0).to(x.scalar_type()).sum(axes, keeps)
                     : p == -INFINITY ? x.amin(axes, keeps)
                                      : x.pow(p).sum(axes, keeps).pow(1 / p);
    return y.to(result);
  }
  return KEEL_FALL_BACK(linalg_vector_norm, self, order, dims, keeps, type);
}

Tensor log_sum_exp(const Tensor& self, at::IntArrayRef dims, bool keeps) {
  const Tensor x = at::isIntegralType(self.scalar_type(), true)
                       ? self.to(at::get_default_dtype_as_scalartype())
                       : self;
  auto y = reduce(KEEL_FUNCTION(LOG_SUM_EXP), x, dims, keeps, x.scalar_type());
  return y.has_value() ? *y : KEEL_FALL_BACK(logsumexp, self, dims, keeps);
}

// The mean over |dims| and the norm of the differences from it, both in float32 or float64 and with
// every dimension kept; |divisor| makes its square the variance. Nothing where no kernel can.
struct Deviations {
  Tensor mean;
  Tensor norm;
  double divisor;
};

std::optional<Deviations> deviations(const Tensor& self, OptionalDims dims,
                                     const std::optional<at::Scalar>& correction) {
  if (!at::isFloatingType(self.scalar_type())) return std::nullopt;
  const at::ScalarType type = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto mean = reduce(KEEL_FUNCTION(MEAN), self, dims, true, type);
  if (!mean.has_value()) return std::nullopt;
  const Tensor differences = at::empty(self.sizes(), self.options().dtype(type));
  Elementwise difference;
  difference.function = KEEL_ELEMENTWISE_FUNCTION_SUB;
  if (!elementwise_as_given(difference, differences, {self, mean->expand(self.sizes())},
                            {0, 0, 0})) {
    return std::nullopt;
  }
  const auto norm = reduce(KEEL_FUNCTION(NORM), differences, dims, true, type);
  if (!norm.has_value()) return std::nullopt;
  double count = 1;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (mean->size(i) != self.size(i)) count *= static_cast<double>(self.size(i));
  }
  const double lost = correction.has_value() ? correction->toDouble() : 1;
  if (count <= lost) {
    TORCH_WARN("var() and std(): degrees of freedom is <= 0: of ", count, " elements, the ",
               "correction takes ", lost);
  }
  return Deviations{*mean, *norm, std::max(count - lost, 0.0)};
}

// |kept|, a result of deviations(), in |self|'s type and without the dimensions of |dims|.
Tensor finished(const Tensor& kept, const Tensor& self, OptionalDims dims, bool keeps) {
  const Tensor y = kept.to(self.scalar_type());
  if (keeps) return y;
  if (!dims.has_value() || dims->empty()) return y.reshape({});
  return y.squeeze(*dims);
}

Tensor variance(const Deviations& of) {
  return (of.norm * of.norm).div_(of.divisor);
}
Tensor deviation(const Deviations& of) {
  return of.norm / std::sqrt(of.divisor);
}

using OptionalScalar = std::optional<at::Scalar>;

Tensor var(const Tensor& self, OptionalDims dims, const OptionalScalar& correction, bool keeps) {
  if (const auto of = deviations(self, dims, correction)) {
    return finished(variance(*of), self, dims, keeps);
  }
  return KEEL_FALL_BACK2(var, correction, self, dims, correction, keeps);
}
Tensor standard(const Tensor& self, OptionalDims dims, const OptionalScalar& correction,
                bool keeps) {
  if (const auto of = deviations(self, dims, correction)) {
    return finished(deviation(*of), self, dims, keeps);
  }
  return KEEL_FALL_BACK2(std, correction, self, dims, correction, keeps);
}
std::tuple<Tensor, Tensor> var_mean(const Tensor& self, OptionalDims dims,
                                    const OptionalScalar& correction, bool keeps) {
  if (const auto of = deviations(self, dims, correction)) {
    return {finished(variance(*of), self, dims, keeps), finished(of->mean, self, dims, keeps)};
  }
  return KEEL_FALL_BACK2(var_mean, correction, self, dims, correction, keeps);
}
std::tuple<Tensor, Tensor> std_mean(const Tensor& self, OptionalDims dims,
                                    const OptionalScalar& correction, bool keeps) {
  if (const auto of = deviations(self, dims, correction)) {
    return {finished(deviation(*of), self, dims, keeps), finished(of->mean, self, dims, keeps)};
  }
  return KEEL_FALL_BACK2(std_mean, correction, self, dims, correction, keeps);
}

bool equal(const Tensor& self, const Tensor& other) {
  TORCH_CHECK(
      self.device() == other.device(),
      "keel: expected all tensors to be on the same device, but found at least two devices, ",
      self.device(), " and ", other.device());
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || self.eq(other).all().item<bool>();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("sum.dim_IntList", &sum_dim);
  library.impl("sum", &sum_all);
  library.impl("mean.dim", &mean_dim);
  library.impl("mean", &mean_all);
  library.impl("prod.dim_int", &prod_dim);
  library.impl("prod", &prod_all);
  library.impl("amax", &amax);
  library.impl("amin", &amin);
  library.impl("max", &max_all);
  library.impl("min", &min_all);
  library.impl("max.dim", &max_dim);
  library.impl("min.dim", &min_dim);
  library.impl("argmax", &argmax);
  library.impl("argmin", &argmin);
  library.impl("any", &any_all);
  library.impl("any.dim", &any_dim);
  library.impl("any.dims", &any_dims);
  library.impl("all", &all_all);
  library.impl("all.dim", &all_dim);
  library.impl("all.dims", &all_dims);
  library.impl("linalg_vector_norm", &vector_norm);
  library.impl("logsumexp", &log_sum_exp);
  library.impl("var.correction", &var);
  library.impl("std.correction", &standard);
  library.impl("var_mean.correction", &var_mean);
  library.impl("std_mean.correction", &std_mean);
  library.impl("equal", &equal);
}

}  // namespace

}  // namespace keel_torch::device
