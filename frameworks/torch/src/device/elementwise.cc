// SPDX-License-Identifier: Apache-2.0
#include "elementwise.h"

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>

#include <array>
#include <cmath>
#include <limits>

#include "copies.h"
#include "devices.h"
#include "views.h"

namespace keel_torch::device {

namespace {

// Beyond, a float64 attribute would round an integer.
constexpr double kLargestExact = 9007199254740992.0;  // 2^53

bool is_computable(at::ScalarType type) {
  switch (type) {
    case at::kBool:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kHalf:
    case at::kBFloat16:
    case at::kFloat:
    case at::kDouble:
      return true;
    default:
      return false;
  }
}

bool is_float(keel_dtype dtype) {
  return dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16 || dtype == KEEL_FLOAT32 ||
         dtype == KEEL_FLOAT64;
}

// The bytes [begin, end) that a view spans.
std::pair<uint64_t, uint64_t> span_of(const keel_tensor& view, uint64_t bytes) {
  uint64_t last = 0;
  for (uint32_t i = 0; i < view.rank; ++i) last += (view.shape[i] - 1) * view.strides[i];
  return {view.byte_offset, view.byte_offset + (last + 1) * bytes};
}

bool is_same_view(const keel_tensor& a, const keel_tensor& b) {
  if (a.dtype != b.dtype || a.byte_offset != b.byte_offset) return false;
  for (uint32_t i = 0; i < a.rank; ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

// One call in the making: the views of the output and of up to three inputs.
struct Call {
  View y;
  std::array<View, 3> views;
  std::array<const View*, 3> inputs{};
  keel_op_elementwise_attributes attributes = KEEL_OP_ELEMENTWISE_ATTRIBUTES;
};

void set_layout(View& view, const at::TensorIterator& iterator, int operand,
                const at::TensorBase& tensor) {
  view.set_memory(tensor, dtype_of(tensor.scalar_type()));
  view.rank = static_cast<uint32_t>(iterator.ndim());
  view.byte_offset =
      static_cast<const char*>(iterator.data_ptr(operand)) - static_cast<const char*>(view.data);
  const auto item = static_cast<int64_t>(tensor.itemsize());
  for (uint32_t i = 0; i < view.rank; ++i) {
    const uint32_t reversed = view.rank - 1 - i;  // PyTorch's first dimension is the fastest
    view.shape[i] = iterator.shape()[reversed];
    view.strides[i] = iterator.strides(operand)[reversed] / item;
  }
}

// A sum or product of bools is a logical one.
int64_t function_for(int64_t function, at::ScalarType output, bool has_other_input) {
  if (output != at::kBool) return function;
  switch (function) {
    case KEEL_ELEMENTWISE_FUNCTION_COPY:
      return has_other_input ? int64_t{KEEL_ELEMENTWISE_FUNCTION_NE} : function;
    case KEEL_ELEMENTWISE_FUNCTION_ADD:
      return KEEL_ELEMENTWISE_FUNCTION_LOGICAL_OR;
    case KEEL_ELEMENTWISE_FUNCTION_MUL:
      return KEEL_ELEMENTWISE_FUNCTION_LOGICAL_AND;
    case KEEL_ELEMENTWISE_FUNCTION_BITWISE_NOT:
      return KEEL_ELEMENTWISE_FUNCTION_LOGICAL_NOT;
    default:
      return function;
  }
}

// Whether Keel would take |y|, given that an input shares its storage, without a temporary.
bool is_output_apart(const Call& call, const at::TensorBase& output,
                     at::ArrayRef<const at::TensorBase*> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (call.inputs[i] == nullptr || !tensors[i]->storage().is_alias_of(output.storage())) continue;
    if (is_same_view(call.y, *call.inputs[i])) continue;
    const auto [begin, end] = span_of(call.y, output.itemsize());
    const auto [other_begin, other_end] = span_of(*call.inputs[i], tensors[i]->itemsize());
    if (begin < other_end && other_begin < end) return false;
  }
  return true;
}

bool submit(c10::DeviceIndex device, const Call& call) {
  const View* const outputs[] = {&call.y};
  return run(device, KEEL_OP_ELEMENTWISE, call.inputs, outputs, &call.attributes,
             sizeof call.attributes / sizeof(keel_attribute));
}

// Whether rounding to the type that PyTorch computes in, |computed|, and then to |output|, gives
// what Keel's one rounding does: Keel computes in the widest type of all tensors, outputs included.
bool rounds_alike(at::ScalarType computed, at::ScalarType output) {
  return output == computed || (at::elementSize(output) < at::elementSize(computed) &&
                                at::isFloatingType(output) == at::isFloatingType(computed));
}

// Runs |call| into memory of its own, and copies that to the output.
bool submit_apart(c10::DeviceIndex device, Call& call, const at::TensorBase& output) {
  std::vector<int64_t> shape(call.y.shape, call.y.shape + call.y.rank);
  const at::Tensor result = at::empty(shape, output.options());
  const View y = call.y;
  call.y = View(result);
  if (!submit(device, call)) return false;
  Call copy;
  copy.y = y;
  copy.inputs[0] = &call.y;
  return submit(device, copy);
}

// Whether a call that allocates its output takes dense tensors of one shape, type and device, so
// that nothing is broadcast or converted.
bool is_flat(const Elementwise& call, at::ArrayRef<at::Tensor> inputs) {
  const at::Tensor& first = inputs.front();
  const at::ScalarType type = first.scalar_type();
  if (!is_computable(type) || first.device().type() != kType || first.numel() == 0) return false;
  if (call.promotion == Promotion::kFloat && !at::isFloatingType(type)) return false;
  return std::all_of(inputs.begin(), inputs.end(), [&](const at::Tensor& input) {
    return input.scalar_type() == type && input.device() == first.device() &&
           input.is_contiguous() && input.sizes() == first.sizes() && !input.is_neg() &&
           !input.unsafeGetTensorImpl()->is_wrapped_number();
  });
}

void set_flat(View& view, const at::TensorBase& tensor, int64_t count) {
  view.set_memory(tensor, dtype_of(tensor.scalar_type()));
  view.rank = 1;
  view.byte_offset = static_cast<uint64_t>(tensor.storage_offset()) * tensor.itemsize();
  view.shape[0] = count;
  view.strides[0] = 1;
}

// A call that is_flat accepts, as one row of elements: TensorIterator would take a third of the
// time of a small call. Returns false where no kernel can run it; |output| is then allocated.
bool elementwise_flat(const Elementwise& call, at::Tensor& output,
                      at::ArrayRef<at::Tensor> inputs) {
  const at::Tensor& first = inputs.front();
  const at::ScalarType type =
      call.promotion == Promotion::kCompare ? at::kBool : first.scalar_type();
  output = new_tensor(first.device().index(), first.sizes(), type);
  const int64_t count = first.numel();
  Call made;
  set_flat(made.y, output, count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    set_flat(made.views[i], inputs[i], count);
    made.inputs[i] = &made.views[i];
  }
  made.attributes.function = function_for(call.function, type, false);
  made.attributes.alpha = call.alpha;
  made.attributes.seed = call.seed;
  made.attributes.offset = call.offset;
  return submit(first.device().index(), made);
}

}  // namespace

bool is_exact(const at::Scalar& number) {
  return !number.isIntegral(false) || std::abs(number.toDouble()) < kLargestExact;
}

at::Tensor wrapped(const at::Scalar& number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

bool elementwise(const Elementwise& call, at::Tensor& output,
                 std::initializer_list<at::Tensor> inputs) {
  if (!output.defined() && is_flat(call, inputs)) {
    return elementwise_flat(call, output, inputs);
  }
  at::TensorIteratorConfig config;
  config.add_output(output);
  c10::DeviceIndex common = output.defined() && output.device().type() == kType
                                ? output.device().index()
                                : c10::DeviceIndex{-1};
  for (const at::Tensor& input : inputs) {
    if (common < 0 && input.device().type() == kType) common = input.device().index();
  }
  for (const at::Tensor& input : inputs) {
    if (!is_computable(input.scalar_type()) || input.is_conj() || input.is_neg()) return false;
    if (input.device().type() == kType) {
      TORCH_CHECK(common == input.device().index(),
                  "keel: expected all tensors to be on the same device, but found at least two "
                  "devices, keel:",
                  static_cast<int>(common), " and ", input.device());
    } else {
      TORCH_CHECK(input.device().is_cpu() && input.dim() == 0,
                  "keel: expected all tensors to be on the same device, but found at least two "
                  "devices, keel:",
                  static_cast<int>(common), " and ", input.device());
    }
  }
  TORCH_CHECK(!output.defined() || output.device() == c10::Device(kType, common),
              "keel: expected all tensors to be on the same device, but found at least two "
              "devices, ",
              output.device(), " and keel:", static_cast<int>(common));
  TORCH_CHECK(common >= 0, "keel: no tensor of a keel device");
  // TensorIterator takes one number: the others enter as tensors of the device without content.
  std::array<at::Tensor, 3> operands;
  bool has_number = false;
  size_t count = 0;
  for (const at::Tensor& input : inputs) {
    const bool is_number = input.device().is_cpu();
    operands[count] = input;
    if (is_number && has_number) {
      operands[count] =
          at::empty({}, input.options().device(c10::Device(kType, common)).pinned_memory(false));
      operands[count].unsafeGetTensorImpl()->set_wrapped_number(
          input.unsafeGetTensorImpl()->is_wrapped_number());
    }
    has_number = has_number || is_number;
    config.add_const_input(operands[count]);
    ++count;
  }
  if (output.defined() && (!is_computable(output.scalar_type()) || output.is_neg())) return false;
  config.allow_cpu_scalars(true).promote_inputs_to_common_dtype(true);
  if (call.promotion == Promotion::kCompare) {
    if (!output.defined()) config.declare_static_dtype(at::kBool);
  } else {
    config.cast_common_dtype_to_outputs(true).enforce_safe_casting_to_output(true);
    if (call.promotion == Promotion::kFloat) config.promote_integer_inputs_to_float(true);
  }
  // |iterator| allocates the output on the device of the inputs.
  at::TensorIterator iterator = config.build();
  output = iterator.output(0);
  if (iterator.numel() == 0) return true;
  if (iterator.ndim() > KEEL_MAX_RANK || output.device().type() != kType) return false;
  const bool is_comparison = call.promotion == Promotion::kCompare;
  const at::ScalarType type = output.scalar_type();
  if (!rounds_alike(iterator.common_dtype(), type) && !(is_comparison && type == at::kBool)) {
    at::Tensor result =
        at::empty(output.sizes(),
                  output.options().dtype(is_comparison ? at::kBool : iterator.common_dtype()));
    return elementwise(call, result, inputs) && copy_on_device(output, result);
  }

  Call made;
  const c10::DeviceIndex device = output.device().index();
  set_layout(made.y, iterator, 0, output);
  std::array<at::Tensor, 3> materialized;
  std::array<const at::TensorBase*, 3> tensors{};
  double* const numbers[] = {&made.attributes.a_number, &made.attributes.b_number,
                             &made.attributes.c_number};
  bool has_float = is_float(made.y.dtype);
  const auto is_number = [&](size_t i) { return inputs.begin()[i].device().is_cpu(); };
  for (size_t i = 0; i < count; ++i) {
    tensors[i] = &operands[i];
    if (is_number(i)) continue;
    set_layout(made.views[i], iterator, static_cast<int>(i) + 1, *tensors[i]);
    made.inputs[i] = &made.views[i];
    has_float = has_float || is_float(made.views[i].dtype);
  }
  const bool wants_float = at::isFloatingType(iterator.common_dtype());
  for (size_t i = 0; i < count; ++i) {
    if (!is_number(i)) continue;
    const at::Scalar number = inputs.begin()[i].item();
    const double value = number.toDouble();
    // Keel computes with the types of tensors: a float among integers, and an integer that float64
    // would round, become tensors.
    const bool is_exact = has_float || (!wants_float && std::abs(value) < kLargestExact);
    if (is_exact) {
      *numbers[i] = value;
      continue;
    }
    const c10::ScalarType type =
        has_float || !wants_float ? tensors[i]->scalar_type() : iterator.common_dtype();
    materialized[i] = at::empty({}, at::TensorOptions().dtype(type).device(output.device()));
    if (!fill_on_device(materialized[i], number)) return false;
    made.views[i] = made.y;
    made.views[i].dtype = dtype_of(type);
    made.views[i].data = materialized[i].mutable_data_ptr();
    made.views[i].byte_offset = 0;
    std::fill_n(made.views[i].strides, made.y.rank, 0);
    made.inputs[i] = &made.views[i];
    tensors[i] = &materialized[i];
  }
  made.attributes.function = function_for(call.function, output.scalar_type(), false);
  made.attributes.alpha = call.alpha;
  made.attributes.seed = call.seed;
  made.attributes.offset = call.offset;
  return is_output_apart(made, output, at::ArrayRef(tensors.data(), count))
             ? submit(device, made)
             : submit_apart(device, made, output);
}

bool elementwise_as_given(const Elementwise& call, const at::Tensor& output,
                          at::ArrayRef<at::Tensor> inputs, const double (&numbers)[3]) {
  if (output.numel() == 0) return true;
  if (!is_computable(output.scalar_type()) || output.dim() > KEEL_MAX_RANK) return false;
  Call made;
  made.y = View(output);
  std::array<const at::TensorBase*, 3> tensors{};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    if (!is_computable(inputs[i].scalar_type())) return false;
    made.views[i] = View(inputs[i]);
    made.inputs[i] = &made.views[i];
    tensors[i] = &inputs[i];
  }
  made.attributes.function = call.function;
  made.attributes.alpha = call.alpha;
  made.attributes.a_number = numbers[0];
  made.attributes.b_number = numbers[1];
  made.attributes.c_number = numbers[2];
  made.attributes.seed = call.seed;
  made.attributes.offset = call.offset;
  const c10::DeviceIndex device = output.device().index();
  return is_output_apart(made, output, at::ArrayRef(tensors.data(), inputs.size()))
             ? submit(device, made)
             : submit_apart(device, made, output);
}

bool copy_on_device(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.is_conj() != source.is_conj()) return false;
  const at::Tensor from =
      source.sizes() == destination.sizes() ? source : source.expand(destination.sizes());
  if (from.dim() > KEEL_MAX_RANK) return false;
  if (from.scalar_type() == destination.scalar_type() && from.is_neg() == destination.is_neg() &&
      is_describable_bits(from) && destination.is_non_overlapping_and_dense() &&
      !from.storage().is_alias_of(destination.storage())) {
    // The same bits in another order, of any type.
    keel_op_transpose_attributes attributes = KEEL_OP_TRANSPOSE_ATTRIBUTES;
    for (int64_t i = 0; i < from.dim(); ++i) attributes.order = attributes.order << 4 | i;
    const View x = bits_of(from);
    const View y = bits_of(destination);
    if (run(destination.device().index(), KEEL_OP_TRANSPOSE, {&x}, {&y}, attributes)) return true;
  }
  if (from.is_neg() != destination.is_neg()) return false;
  if (!is_computable(from.scalar_type()) || !is_computable(destination.scalar_type())) return false;
  Elementwise call;
  call.function = function_for(KEEL_ELEMENTWISE_FUNCTION_COPY, destination.scalar_type(),
                               from.scalar_type() != at::kBool);
  if (call.function == KEEL_ELEMENTWISE_FUNCTION_COPY &&
      dtype_of(from.scalar_type()) != dtype_of(destination.scalar_type()) &&
      !from.storage().is_alias_of(destination.storage())) {
    // Some devices cast what their elementwise does not take, and dense tensors sooner.
    const View x(from);
    const View y(destination);
    const View* const inputs[] = {&x};
    const View* const outputs[] = {&y};
    const c10::DeviceIndex index = destination.device().index();
    if (has_kernel(index, KEEL_OP_CAST, inputs, outputs, nullptr, 0) &&
        run(index, KEEL_OP_CAST, inputs, outputs)) {
      return true;
    }
  }
  return elementwise_as_given(call, destination, {from}, {0, 0, 0});
}

bool fill_on_device(const at::Tensor& tensor, const at::Scalar& value) {
  if (tensor.numel() == 0) return true;
  // |pattern| holds the number in the tensor's own type: no rounding through float64.
  const at::Tensor pattern = at::scalar_tensor(value, at::TensorOptions(tensor.scalar_type()));
  if (tensor.is_non_overlapping_and_dense() && tensor.itemsize() <= 8) {
    check(keel_fill(stream_of(tensor.device().index()), tensor.mutable_data_ptr(),
                    pattern.const_data_ptr(), static_cast<uint32_t>(tensor.itemsize()),
                    tensor.nbytes()),
          "filling a tensor");
    return true;
  }
  if (!is_computable(tensor.scalar_type())) return false;
  const double number = pattern.item().toDouble();
  if (at::isIntegralType(tensor.scalar_type(), true) && std::abs(number) >= kLargestExact) {
    at::Tensor one = at::empty({}, tensor.options());
    return fill_on_device(one, value) && copy_on_device(tensor, one);
  }
  return elementwise_as_given({}, tensor, {}, {number, 0, 0});
}

}  // namespace keel_torch::device
