// SPDX-License-Identifier: Apache-2.0
// Random numbers by the device's Philox.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <c10/util/BFloat16-math.h>
#include <torch/library.h>

#include <cmath>
#include <limits>

#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "generator.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using at::Tensor;
using OptionalGenerator = std::optional<at::Generator>;

// Fills |tensor| by |function|. The numbers are those of the row-major order of its shape, whatever
// its strides.
bool draw(int64_t function, const Tensor& tensor, const Tensor& a, double a_number, double b_number,
          const OptionalGenerator& generator) {
  const Philox philox = reserve(generator, tensor.device().index(), tensor.numel());
  Elementwise call;
  call.function = function;
  call.seed = philox.seed;
  call.offset = philox.offset;
  return a.defined() ? elementwise_as_given(call, tensor, {a}, {0, b_number, 0})
                     : elementwise_as_given(call, tensor, {}, {a_number, b_number, 0});
}

// The largest number of |type| below |limit|.
double below(double limit, at::ScalarType type) {
  double result = limit;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, type, "uniform_", [&] {
    const auto rounded = static_cast<scalar_t>(limit);
    result = static_cast<double>(
        static_cast<double>(rounded) < limit
            ? rounded
            : std::nextafter(rounded, -std::numeric_limits<scalar_t>::infinity()));
  });
  return result;
}

Tensor& uniform_(Tensor& self, double from, double to, OptionalGenerator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()), "uniform_ expects a floating point dtype");
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  if (!draw(KEEL_ELEMENTWISE_FUNCTION_UNIFORM, self, {}, from, to, generator)) {
    return KEEL_FALL_BACK(uniform_, self, from, to, generator);
  }
  // from + (to - from) u, where u has 24 bits, is below |to| and may round to it.
  const bool may_round_up = from < to && (from != 0 || self.itemsize() == 2);
  return may_round_up ? self.clamp_max_(std::max(below(to, self.scalar_type()), from)) : self;
}

Tensor& normal_(Tensor& self, double mean, double deviation, OptionalGenerator generator) {
  TORCH_CHECK(deviation >= 0, "normal expects std >= 0.0, but found std ", deviation);
  if (at::isFloatingType(self.scalar_type()) &&
      draw(KEEL_ELEMENTWISE_FUNCTION_NORMAL, self, {}, mean, deviation, generator)) {
    return self;
  }
  return KEEL_FALL_BACK(normal_, self, mean, deviation, generator);
}

Tensor& bernoulli_number_(Tensor& self, double p, OptionalGenerator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  if (draw(KEEL_ELEMENTWISE_FUNCTION_BERNOULLI, self, {}, p, 0, generator)) return self;
  return KEEL_FALL_BACK2(bernoulli_, float, self, p, generator);
}

Tensor& bernoulli_tensor_(Tensor& self, const Tensor& p, OptionalGenerator generator) {
  const Tensor of_device = p.to(self.device());
  if (draw(KEEL_ELEMENTWISE_FUNCTION_BERNOULLI, self, of_device.expand(self.sizes()), 0, 0,
           generator)) {
    return self;
  }
  return KEEL_FALL_BACK2(bernoulli_, Tensor, self, p, generator);
}

Tensor bernoulli(const Tensor& self, OptionalGenerator generator) {
  Tensor result = at::empty_like(self, self.options(), at::MemoryFormat::Contiguous);
  return bernoulli_tensor_(result, self, generator);
}

Tensor& bernoulli_out(const Tensor& self, OptionalGenerator generator, Tensor& output) {
  output.resize_(self.sizes());
  return bernoulli_tensor_(output, self, generator);
}

Tensor& exponential_(Tensor& self, double lambda, OptionalGenerator generator) {
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "exponential_ expects a floating point dtype");
  TORCH_CHECK(lambda > 0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  // 16 bits have 1, of which the logarithm is infinite.
  const bool is_wide = self.itemsize() > 2;
  Tensor draws = is_wide ? self : at::empty(self.sizes(), self.options().dtype(at::kFloat));
  uniform_(draws, 0, 1, generator);
  // A result of 0, whose logarithm gumbel_softmax takes, would come once in 2^24 draws, and of
  // float16 for each that rounds to 0: half of the least draw, and the least positive number.
  draws.clamp_min_(0x1p-25).neg_().log1p_().mul_(-1 / lambda);
  if (!is_wide) self.copy_(draws);
  return self.scalar_type() == at::kHalf ? self.clamp_min_(0x1p-24) : self;
}

std::tuple<Tensor, Tensor> dropout(const Tensor& input, double p, std::optional<bool> is_training) {
  TORCH_CHECK(0 <= p && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (is_training.has_value() && !*is_training) {
    return {input.clone(), at::ones(input.sizes(), input.options().dtype(at::kBool))};
  }
  Tensor mask = at::empty(input.sizes(), input.options().dtype(at::kBool));
  bernoulli_number_(mask, 1 - p, std::nullopt);
  const Tensor result = at::empty(input.sizes(), input.options());
  Elementwise call;
  call.function = KEEL_ELEMENTWISE_FUNCTION_ADDCMUL;
  call.alpha = p == 1 ? 0 : 1 / (1 - p);
  if (elementwise_as_given(call, result, {Tensor(), input, mask}, {0, 0, 0})) return {result, mask};
  return {input.mul(mask).mul(call.alpha), mask};
}

Tensor dropout_backward(const Tensor& gradient, const Tensor& mask, double scale) {
  const Tensor result = at::empty(gradient.sizes(), gradient.options());
  Elementwise call;
  call.function = KEEL_ELEMENTWISE_FUNCTION_ADDCMUL;
  call.alpha = scale;
  if (elementwise_as_given(call, result, {Tensor(), gradient, mask}, {0, 0, 0})) return result;
  return gradient.mul(mask).mul(scale);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("uniform_", &uniform_);
  library.impl("normal_", &normal_);
  library.impl("bernoulli_.float", &bernoulli_number_);
  library.impl("bernoulli_.Tensor", &bernoulli_tensor_);
  library.impl("bernoulli", &bernoulli);
  library.impl("bernoulli.out", &bernoulli_out);
  library.impl("exponential_", &exponential_);
  library.impl("native_dropout", &dropout);
  library.impl("native_dropout_backward", &dropout_backward);
}

}  // namespace

}  // namespace keel_torch::device
