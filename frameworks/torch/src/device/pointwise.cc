// SPDX-License-Identifier: Apache-2.0
// PyTorch's pointwise operators by Keel's elementwise operator: one line each.
#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <limits>
#include <utility>

#include "devices.h"
#include "elementwise.h"
#include "fallback.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using torch::jit::Stack;

// How an operator's arguments become a, b, c and alpha.
enum class Form : uint8_t {
  kUnary,
  kBinary,        // (a, b); alpha where the schema has one
  kReversed,      // (b, a); alpha where the schema has one
  kTernary,       // (a, b, c)
  kValue,         // (a, b, c, value): alpha = value
  kMaskedFill,    // (c, mask, b): where
  kDivMode,       // (a, b, rounding_mode)
  kPow,           // (a, b), and integers refuse negative exponents
  kArithmetic,    // (a, b), which bool refuses
  kClamp,         // (a, min, max), each of which may be absent
  kGeluBackward,  // (a, b, approximate)
  kGelu,          // (a, approximate)
  kUnaryNoBool,
};

#define KEEL_FUNCTION(NAME) KEEL_ELEMENTWISE_FUNCTION_##NAME

struct Row {
  const char* names;  // the overloads, separated by blanks
  int64_t function;
  Form form;
  Promotion promotion;
};

constexpr auto kSame = Promotion::kSame;
constexpr auto kFloat = Promotion::kFloat;
constexpr auto kCompare = Promotion::kCompare;

constexpr Row kRows[] = {
    {"neg neg_ neg.out", KEEL_FUNCTION(NEG), Form::kUnaryNoBool, kSame},
    {"abs abs_ abs.out", KEEL_FUNCTION(ABS), Form::kUnary, kSame},
    {"sign sign_ sign.out sgn sgn_ sgn.out", KEEL_FUNCTION(SIGN), Form::kUnary, kSame},
    {"floor floor_ floor.out", KEEL_FUNCTION(FLOOR), Form::kUnary, kSame},
    {"ceil ceil_ ceil.out", KEEL_FUNCTION(CEIL), Form::kUnary, kSame},
    {"round round_ round.out", KEEL_FUNCTION(ROUND), Form::kUnary, kSame},
    {"trunc trunc_ trunc.out", KEEL_FUNCTION(TRUNC), Form::kUnary, kSame},
    {"sqrt sqrt_ sqrt.out", KEEL_FUNCTION(SQRT), Form::kUnary, kFloat},
    {"rsqrt rsqrt_ rsqrt.out", KEEL_FUNCTION(RSQRT), Form::kUnary, kFloat},
    {"reciprocal reciprocal_ reciprocal.out", KEEL_FUNCTION(RECIPROCAL), Form::kUnary, kFloat},
    {"exp exp_ exp.out", KEEL_FUNCTION(EXP), Form::kUnary, kFloat},
    {"exp2 exp2_ exp2.out", KEEL_FUNCTION(EXP2), Form::kUnary, kFloat},
    {"expm1 expm1_ expm1.out", KEEL_FUNCTION(EXPM1), Form::kUnary, kFloat},
    {"log log_ log.out", KEEL_FUNCTION(LOG), Form::kUnary, kFloat},
    {"log2 log2_ log2.out", KEEL_FUNCTION(LOG2), Form::kUnary, kFloat},
    {"log1p log1p_ log1p.out", KEEL_FUNCTION(LOG1P), Form::kUnary, kFloat},
    {"sin sin_ sin.out", KEEL_FUNCTION(SIN), Form::kUnary, kFloat},
    {"cos cos_ cos.out", KEEL_FUNCTION(COS), Form::kUnary, kFloat},
    {"tanh tanh_ tanh.out", KEEL_FUNCTION(TANH), Form::kUnary, kFloat},
    {"sigmoid sigmoid_ sigmoid.out", KEEL_FUNCTION(SIGMOID), Form::kUnary, kFloat},
    {"relu relu_ relu.out", KEEL_FUNCTION(RELU), Form::kUnaryNoBool, kSame},
    {"silu silu_ silu.out", KEEL_FUNCTION(SILU), Form::kUnary, kFloat},
    {"erf erf_ erf.out", KEEL_FUNCTION(ERF), Form::kUnary, kFloat},
    {"gelu gelu_ gelu.out", KEEL_FUNCTION(GELU), Form::kGelu, kSame},
    {"isnan", KEEL_FUNCTION(IS_NAN), Form::kUnary, kCompare},
    {"logical_not logical_not_ logical_not.out", KEEL_FUNCTION(LOGICAL_NOT), Form::kUnary,
     kCompare},
    {"bitwise_not bitwise_not_ bitwise_not.out", KEEL_FUNCTION(BITWISE_NOT), Form::kUnary, kSame},
    {"add.Tensor add_.Tensor add.out add.Scalar add_.Scalar", KEEL_FUNCTION(ADD), Form::kBinary,
     kSame},
    {"sub.Tensor sub_.Tensor sub.out sub.Scalar sub_.Scalar", KEEL_FUNCTION(SUB), Form::kArithmetic,
     kSame},
    {"rsub.Tensor rsub.Scalar", KEEL_FUNCTION(SUB), Form::kReversed, kSame},
    {"mul.Tensor mul_.Tensor mul.out mul.Scalar mul_.Scalar", KEEL_FUNCTION(MUL), Form::kBinary,
     kSame},
    {"div.Tensor div_.Tensor div.out div.Scalar div_.Scalar", KEEL_FUNCTION(DIV), Form::kBinary,
     kFloat},
    {"div.Tensor_mode div_.Tensor_mode div.out_mode", KEEL_FUNCTION(DIV), Form::kDivMode, kSame},
    {"floor_divide floor_divide_.Tensor floor_divide.out", KEEL_FUNCTION(FLOOR_DIV), Form::kBinary,
     kSame},
    {"remainder.Tensor remainder_.Tensor remainder.Tensor_out remainder.Scalar_Tensor",
     KEEL_FUNCTION(REMAINDER), Form::kBinary, kSame},
    {"fmod.Tensor fmod_.Tensor fmod.Tensor_out", KEEL_FUNCTION(FMOD), Form::kBinary, kSame},
    {"pow.Tensor_Tensor pow_.Tensor pow.Tensor_Tensor_out pow.Tensor_Scalar pow_.Scalar "
     "pow.Tensor_Scalar_out pow.Scalar pow.Scalar_out",
     KEEL_FUNCTION(POW), Form::kPow, kSame},
    {"maximum maximum.out", KEEL_FUNCTION(MAXIMUM), Form::kBinary, kSame},
    {"minimum minimum.out", KEEL_FUNCTION(MINIMUM), Form::kBinary, kSame},
    {"clamp_min clamp_min_ clamp_min.out clamp_min.Tensor clamp_min_.Tensor clamp_min.Tensor_out",
     KEEL_FUNCTION(MAXIMUM), Form::kBinary, kSame},
    {"clamp_max clamp_max_ clamp_max.out clamp_max.Tensor clamp_max_.Tensor clamp_max.Tensor_out",
     KEEL_FUNCTION(MINIMUM), Form::kBinary, kSame},
    {"clamp clamp_ clamp.out clamp.Tensor clamp_.Tensor clamp.Tensor_out", KEEL_FUNCTION(CLAMP),
     Form::kClamp, kSame},
    {"atan2 atan2_ atan2.out", KEEL_FUNCTION(ATAN2), Form::kBinary, kFloat},
    {"eq.Tensor eq_.Tensor eq.Tensor_out eq.Scalar eq_.Scalar eq.Scalar_out", KEEL_FUNCTION(EQ),
     Form::kBinary, kCompare},
    {"ne.Tensor ne_.Tensor ne.Tensor_out ne.Scalar ne_.Scalar ne.Scalar_out", KEEL_FUNCTION(NE),
     Form::kBinary, kCompare},
    {"lt.Tensor lt_.Tensor lt.Tensor_out lt.Scalar lt_.Scalar lt.Scalar_out", KEEL_FUNCTION(LT),
     Form::kBinary, kCompare},
    {"le.Tensor le_.Tensor le.Tensor_out le.Scalar le_.Scalar le.Scalar_out", KEEL_FUNCTION(LE),
     Form::kBinary, kCompare},
    {"gt.Tensor gt_.Tensor gt.Tensor_out gt.Scalar gt_.Scalar gt.Scalar_out", KEEL_FUNCTION(GT),
     Form::kBinary, kCompare},
    {"ge.Tensor ge_.Tensor ge.Tensor_out ge.Scalar ge_.Scalar ge.Scalar_out", KEEL_FUNCTION(GE),
     Form::kBinary, kCompare},
    {"logical_and logical_and_ logical_and.out", KEEL_FUNCTION(LOGICAL_AND), Form::kBinary,
     kCompare},
    {"logical_or logical_or_ logical_or.out", KEEL_FUNCTION(LOGICAL_OR), Form::kBinary, kCompare},
    {"logical_xor logical_xor_ logical_xor.out", KEEL_FUNCTION(LOGICAL_XOR), Form::kBinary,
     kCompare},
    {"bitwise_and.Tensor bitwise_and_.Tensor bitwise_and.Tensor_out", KEEL_FUNCTION(BITWISE_AND),
     Form::kBinary, kSame},
    {"bitwise_or.Tensor bitwise_or_.Tensor bitwise_or.Tensor_out", KEEL_FUNCTION(BITWISE_OR),
     Form::kBinary, kSame},
    {"bitwise_xor.Tensor bitwise_xor_.Tensor bitwise_xor.Tensor_out", KEEL_FUNCTION(BITWISE_XOR),
     Form::kBinary, kSame},
    {"tanh_backward tanh_backward.grad_input", KEEL_FUNCTION(TANH_BACKWARD), Form::kBinary, kSame},
    {"sigmoid_backward sigmoid_backward.grad_input", KEEL_FUNCTION(SIGMOID_BACKWARD), Form::kBinary,
     kSame},
    {"threshold_backward threshold_backward.grad_input", KEEL_FUNCTION(THRESHOLD_BACKWARD),
     Form::kTernary, kSame},
    {"silu_backward silu_backward.grad_input", KEEL_FUNCTION(SILU_BACKWARD), Form::kBinary, kSame},
    {"gelu_backward gelu_backward.grad_input", KEEL_FUNCTION(GELU_BACKWARD), Form::kGeluBackward,
     kSame},
    {"addcmul addcmul_ addcmul.out", KEEL_FUNCTION(ADDCMUL), Form::kValue, kSame},
    {"addcdiv addcdiv_ addcdiv.out", KEEL_FUNCTION(ADDCDIV), Form::kValue, kSame},
    {"lerp.Tensor lerp_.Tensor lerp.Tensor_out lerp.Scalar lerp_.Scalar lerp.Scalar_out",
     KEEL_FUNCTION(LERP), Form::kTernary, kSame},
};

constexpr size_t kRowCount = sizeof kRows / sizeof kRows[0];

at::Tensor operand(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : wrapped(value.toScalar());
}

at::Scalar number(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor().item() : value.toScalar();
}

void refuse_bool(const Row& row, const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.scalar_type() != at::kBool || b.scalar_type() != at::kBool, "keel: ", row.names,
              ": bool tensors are not supported");
}

void refuse_negative_exponent(const at::Tensor& base, const at::Tensor& exponent) {
  TORCH_CHECK(!(exponent.device().is_cpu() && exponent.dim() == 0 &&
                at::isIntegralType(base.scalar_type(), true) &&
                at::isIntegralType(exponent.scalar_type(), true) && exponent.item().toLong() < 0),
              "Integers to negative integer powers are not allowed.");
}

bool has_gelu_by_tanh(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

// gelu by tanh and its gradient: operators of Keel's own.
bool gelu_by_tanh(at::Tensor& output, const at::Tensor& x) {
  const at::Tensor input = dense(x);
  if (!output.defined()) output = at::empty_like(input);
  if (!output.is_contiguous() || !has_gelu_by_tanh(x.scalar_type()) ||
      output.scalar_type() != x.scalar_type() || output.sizes() != x.sizes()) {
    return false;
  }
  if (x.numel() == 0) return true;
  const View in(input);
  const View out(output);
  return run(x.device().index(), KEEL_OP_GELU, {&in}, {&out},
             keel_op_gelu_attributes{KEEL_GELU_FORM_TANH});
}

bool gelu_backward_by_tanh(at::Tensor& output, const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor gradient = dense(dy);
  const at::Tensor input = dense(x);
  if (!output.defined()) output = at::empty_like(input);
  if (!output.is_contiguous() || !has_gelu_by_tanh(x.scalar_type()) ||
      output.sizes() != x.sizes() || dy.sizes() != x.sizes() ||
      dy.scalar_type() != x.scalar_type() || output.scalar_type() != x.scalar_type()) {
    return false;
  }
  if (x.numel() == 0) return true;
  const View a(input);
  const View b(gradient);
  const View out(output);
  return run(x.device().index(), KEEL_OP_GELU_BACKWARD, {&a, &b}, {&out},
             keel_op_gelu_backward_attributes{KEEL_GELU_FORM_TANH});
}

// Sets |call|'s alpha. Returns false for a number that float64 does not hold.
bool set_alpha(Elementwise& call, const c10::IValue& value) {
  const at::Scalar alpha = value.toScalar();
  if (alpha.isComplex() || !is_exact(alpha)) return false;
  call.alpha = alpha.toDouble();
  return true;
}

// Computes |output| from the |arguments| of an operator of |row|. Returns false where no kernel
// can.
bool compute(const Row& row, at::Tensor& output, const c10::IValue* arguments, size_t count) {
  Elementwise call;
  call.function = row.function;
  call.promotion = row.promotion;
  switch (row.form) {
    case Form::kUnaryNoBool:
    case Form::kUnary: {
      const at::Tensor a = arguments[0].toTensor();
      TORCH_CHECK(row.form == Form::kUnary || a.scalar_type() != at::kBool, "keel: ", row.names,
                  ": bool tensors are not supported");
      return elementwise(call, output, {a});
    }
    case Form::kGelu: {
      const at::Tensor a = arguments[0].toTensor();
      if (arguments[1].toStringRef() == "tanh") return gelu_by_tanh(output, a);
      return at::isFloatingType(a.scalar_type()) && elementwise(call, output, {a});
    }
    case Form::kGeluBackward: {
      const at::Tensor a = arguments[0].toTensor();
      const at::Tensor b = arguments[1].toTensor();
      if (arguments[2].toStringRef() == "tanh") return gelu_backward_by_tanh(output, a, b);
      return elementwise(call, output, {a, b});
    }
    case Form::kArithmetic:
    case Form::kReversed:
    case Form::kPow:
    case Form::kBinary: {
      at::Tensor a = operand(arguments[0]);
      at::Tensor b = operand(arguments[1]);
      if (row.form == Form::kArithmetic || row.form == Form::kReversed) refuse_bool(row, a, b);
      if (row.form == Form::kPow) {
        refuse_negative_exponent(a, b);
        if (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool) return false;
      }
      if (count > 2 && !set_alpha(call, arguments[2])) return false;
      // The sum of bool is `or`, which has no factor.
      if (call.alpha == 0 && a.scalar_type() == at::kBool && b.scalar_type() == at::kBool) {
        return false;
      }
      if (row.form == Form::kReversed) std::swap(a, b);
      return elementwise(call, output, {a, b});
    }
    case Form::kTernary:
      return elementwise(call, output,
                         {operand(arguments[0]), operand(arguments[1]), operand(arguments[2])});
    case Form::kValue:
      if (!set_alpha(call, arguments[3])) return false;
      return elementwise(call, output,
                         {operand(arguments[0]), operand(arguments[1]), operand(arguments[2])});
    case Form::kDivMode: {
      const at::Tensor a = operand(arguments[0]);
      const at::Tensor b = operand(arguments[1]);
      if (arguments[2].isNone()) {
        call.promotion = kFloat;
        return elementwise(call, output, {a, b});
      }
      if (arguments[2].toStringRef() == "floor") {
        call.function = KEEL_FUNCTION(FLOOR_DIV);
        return elementwise(call, output, {a, b});
      }
      TORCH_CHECK(arguments[2].toStringRef() == "trunc",
                  "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                  arguments[2].toStringRef(), "'");
      // The quotient is rounded to 16 bits before, as by PyTorch on CUDA and in the CPU's vectors.
      if (!elementwise(call, output, {a, b})) return false;
      if (!at::isFloatingType(output.scalar_type())) return true;
      call.function = KEEL_FUNCTION(TRUNC);
      return elementwise(call, output, {output});
    }
    case Form::kClamp: {
      const at::Tensor a = arguments[0].toTensor();
      TORCH_CHECK(!arguments[1].isNone() || !arguments[2].isNone(),
                  "torch.clamp: At least one of 'min' or 'max' must not be None");
      if (!arguments[1].isNone() && !arguments[2].isNone()) {
        return elementwise(call, output, {a, operand(arguments[1]), operand(arguments[2])});
      }
      const bool has_min = !arguments[1].isNone();
      call.function = has_min ? KEEL_FUNCTION(MAXIMUM) : KEEL_FUNCTION(MINIMUM);
      return elementwise(call, output, {a, operand(arguments[has_min ? 1 : 2])});
    }
    default:
      return false;
  }
}

// Whether the operator's last argument is its output, or its first one is.
struct Signature {
  size_t inputs;
  bool has_output;
  bool is_in_place;
};

Signature signature_of(const c10::OperatorHandle& op) {
  const auto& arguments = op.schema().arguments();
  Signature signature{arguments.size(), false, false};
  const auto* const last = arguments.back().alias_info();
  const auto* const first = arguments.front().alias_info();
  signature.has_output = arguments.size() > 1 && last != nullptr && last->isWrite();
  signature.is_in_place = first != nullptr && first->isWrite();
  if (signature.has_output) --signature.inputs;
  return signature;
}

template <size_t kRow>
void boxed(const c10::OperatorHandle& op, Stack* stack) {
  const Signature signature = signature_of(op);
  const size_t total = signature.inputs + (signature.has_output ? 1 : 0);
  const c10::IValue* const arguments = stack->data() + (stack->size() - total);
  at::Tensor output;
  if (signature.has_output) output = arguments[signature.inputs].toTensor();
  if (signature.is_in_place) output = arguments[0].toTensor();
  const at::Tensor given = output;
  if (given.defined() && !signature.has_output) {
    // An in-place operator does not resize.
    bool is_larger = false;
    for (size_t i = 1; i < signature.inputs; ++i) {
      if (arguments[i].isTensor() && arguments[i].toTensor().defined()) {
        is_larger = is_larger ||
                    at::infer_size(given.sizes(), arguments[i].toTensor().sizes()) != given.sizes();
      }
    }
    TORCH_CHECK(!is_larger, "output with shape ", given.sizes(),
                " doesn't match the broadcast shape");
  }
  if (!compute(kRows[kRow], output, arguments, signature.inputs)) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, total);
  torch::jit::push(*stack, given.defined() ? given : std::move(output));
}

template <size_t kRow>
void register_row(torch::Library& library) {
  std::string_view names = kRows[kRow].names;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    library.impl(std::string(names.substr(0, end)).c_str(),
                 torch::CppFunction::makeFromBoxedFunction<&boxed<kRow>>());
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

template <size_t... kIndices>
void register_rows(torch::Library& library, std::index_sequence<kIndices...>) {
  (register_row<kIndices>(library), ...);
}

// where and masked_fill: the condition takes no part in the common type.

at::Tensor with_type(const at::Tensor& tensor, at::ScalarType type) {
  return tensor.scalar_type() == type || tensor.device().is_cpu() ? tensor : tensor.to(type);
}

bool where(const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b,
           at::Tensor& output) {
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  const at::ScalarType type = at::result_type(a, b);
  if (!output.defined()) {
    const auto shape = at::infer_size(at::infer_size(condition.sizes(), a.sizes()), b.sizes());
    const at::Tensor& of_device = condition.device().type() == kType ? condition
                                  : a.device().type() == kType       ? a
                                                                     : b;
    output = at::empty(shape, of_device.options().dtype(type));
  }
  Elementwise call;
  call.function = KEEL_FUNCTION(WHERE);
  if (output.scalar_type() != type) return false;
  // bool never raises a common type.
  return elementwise(call, output,
                     {condition.scalar_type() == at::kBool ? condition : condition.ne(0),
                      with_type(a, type), with_type(b, type)});
}

void where_boxed(const c10::OperatorHandle& op, Stack* stack) {
  const Signature signature = signature_of(op);
  const size_t total = signature.inputs + (signature.has_output ? 1 : 0);
  const c10::IValue* const arguments = stack->data() + (stack->size() - total);
  at::Tensor output;
  if (signature.has_output) output = arguments[3].toTensor();
  const at::Tensor given = output;
  if (!where(arguments[0].toTensor(), operand(arguments[1]), operand(arguments[2]), output)) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, total);
  torch::jit::push(*stack, given.defined() ? given : std::move(output));
}

void masked_fill_boxed(const c10::OperatorHandle& op, Stack* stack) {
  const at::Tensor self = (*stack)[stack->size() - 3].toTensor();
  const at::Tensor mask = (*stack)[stack->size() - 2].toTensor();
  const bool is_in_place = op.schema().name().back() == '_';
  at::Tensor value = operand((*stack)[stack->size() - 1]);
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_fill only supports boolean masks, but got mask of dtype ",
              mask.scalar_type());
  TORCH_CHECK(value.dim() == 0, "masked_fill only supports a 0-dimensional value tensor, but got ",
              value.dim(), " dimensions");
  at::Tensor output =
      is_in_place ? self : at::empty(at::infer_size(self.sizes(), mask.sizes()), self.options());
  // The value takes self's type, without a promotion.
  if (value.device().is_cpu()) value = wrapped(value.to(self.scalar_type()).item());
  Elementwise call;
  call.function = KEEL_FUNCTION(WHERE);
  if (!elementwise(call, output, {mask, with_type(value, self.scalar_type()), self})) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, 3);
  torch::jit::push(*stack, std::move(output));
}

void fill_boxed(const c10::OperatorHandle& op, Stack* stack) {
  const size_t total = op.schema().arguments().size();
  const at::Tensor self = (*stack)[stack->size() - total].toTensor();
  const bool is_zero = total == 1;
  at::Scalar value = 0;
  if (!is_zero) {
    const c10::IValue& given = stack->back();
    TORCH_CHECK(!given.isTensor() || given.toTensor().dim() == 0,
                "fill_ only supports 0-dimension value tensor");
    if (given.isTensor() && given.toTensor().device() == self.device()) {
      self.copy_(given.toTensor().expand(self.sizes()));
      torch::jit::drop(*stack, total);
      torch::jit::push(*stack, self);
      return;
    }
    value = number(given);
  }
  if (!fill_on_device(self, value)) {
    fall_back(op, stack);
    return;
  }
  torch::jit::drop(*stack, total);
  torch::jit::push(*stack, self);
}

at::Tensor& arange_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step,
                       at::Tensor& output) {
  at::Tensor on_cpu = at::empty({0}, output.options().device(at::kCPU).pinned_memory(false));
  const double first = start.toDouble();
  const double difference = step.toDouble();
  TORCH_CHECK(difference != 0, "step must be nonzero");
  TORCH_CHECK((end.toDouble() - first) * difference >= 0,
              "upper bound and lower bound inconsistent with step sign");
  const bool is_integer = at::isIntegralType(output.scalar_type(), false);
  const int64_t count =
      is_integer && start.isIntegral(false) && end.isIntegral(false) && step.isIntegral(false)
          ? (end.toLong() - start.toLong() + step.toLong() - (step.toLong() > 0 ? 1 : -1)) /
                step.toLong()
          : static_cast<int64_t>(std::ceil((end.toDouble() - first) / difference));
  if (output.numel() != count) output.resize_({count});
  Elementwise call;
  call.function = KEEL_FUNCTION(ARANGE);
  const bool is_given = !is_integer || (is_exact(start) && is_exact(step));
  if (is_given && elementwise_as_given(call, output, {}, {first, difference, 0})) return output;
  count_fallback("aten::arange", output.device().index());
  output.copy_(at::arange_out(on_cpu, start, end, step));
  return output;
}

at::Tensor threshold(const at::Tensor& self, const at::Scalar& limit, const at::Scalar& value) {
  return at::where(self.le(limit), at::empty({}, self.options()).fill_(value), self);
}

at::Tensor& threshold_(at::Tensor& self, const at::Scalar& limit, const at::Scalar& value) {
  return self.masked_fill_(self.le(limit), value);
}
at::Tensor& threshold_out(const at::Tensor& self, const at::Scalar& limit, const at::Scalar& value,
                          at::Tensor& output) {
  at::native::resize_output(output, self.sizes());
  return output.copy_(device::threshold(self, limit, value));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  register_rows(library, std::make_index_sequence<kRowCount>());
  for (const char* const name : {"where.self", "where.self_out"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&where_boxed>());
  }
  for (const char* const name :
       {"masked_fill.Scalar", "masked_fill.Tensor", "masked_fill_.Scalar", "masked_fill_.Tensor"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&masked_fill_boxed>());
  }
  for (const char* const name : {"fill_.Scalar", "fill_.Tensor", "zero_"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fill_boxed>());
  }
  library.impl("threshold", &threshold);
  library.impl("threshold_", &threshold_);
  library.impl("threshold.out", &threshold_out);
  library.impl("arange.start_out", &arange_out);
}

}  // namespace

}  // namespace keel_torch::device
