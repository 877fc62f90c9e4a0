// SPDX-License-Identifier: Apache-2.0
#include "ops/schema.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <keel/plugin_kit.hpp>
#include <limits>

namespace keel::ops {
namespace {

constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

// An argument of a call, for error texts only.
struct Argument {
  const Schema& schema;
  bool output;
  uint32_t index;

  const char* kind() const { return output ? "output" : "input"; }
  const char* name() const {
    return output ? schema.outputs[index].name : schema.inputs[index].name;
  }
};

[[gnu::format(printf, 4, 5), gnu::cold]] bool refuse_argument(const keel_op_call& call,
                                                              CheckError* error,
                                                              const Argument& argument,
                                                              const char* format, ...) {
  char text[sizeof(error->text)];
  va_list values;
  va_start(values, format);
  std::vsnprintf(text, sizeof(text), format, values);
  va_end(values);
  return refuse(call, error, "%s %s: %s", argument.kind(), argument.name(), text);
}

// Returns whether two elements of |tensor| share an address, or might. The test is sufficient: it
// accepts any axis order and padding, but rejects interleaved axes.
bool may_overlap_itself(const keel_tensor& tensor) {
  uint32_t axes[KEEL_MAX_RANK];
  uint32_t count = 0;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    if (tensor.shape[axis] == 0) return false;
    if (tensor.shape[axis] == 1) continue;
    uint32_t at = count++;
    for (; at > 0 && tensor.strides[axes[at - 1]] > tensor.strides[axis]; --at) {
      axes[at] = axes[at - 1];
    }
    axes[at] = axis;
  }
  int64_t reach = 0;  // offset of the last element of the axes seen so far
  for (uint32_t i = 0; i < count; ++i) {
    if (tensor.strides[axes[i]] <= reach) return true;
    reach += (tensor.shape[axes[i]] - 1) * tensor.strides[axes[i]];
  }
  return false;
}

// Checks the layout of one tensor. |*out_bytes|: from its first element to the end of its last.
bool check_tensor(const keel_op_call& call, const keel_tensor& tensor, const Argument& argument,
                  CheckError* error, uint64_t* out_bytes) {
  if (tensor.size < sizeof(keel_tensor)) {
    return refuse_argument(call, error, argument, "size is %u, less than a keel_tensor's %zu",
                           tensor.size, sizeof(keel_tensor));
  }
  const uint64_t element_bytes = kit::dtype_size(tensor.dtype);
  if (element_bytes == 0) {
    return refuse_argument(call, error, argument, "%u is no dtype", tensor.dtype);
  }
  if (tensor.rank > KEEL_MAX_RANK) {
    return refuse_argument(call, error, argument, "rank %u is above %d", tensor.rank,
                           static_cast<int>(KEEL_MAX_RANK));
  }
  int64_t count = 1;  // extents of 0 count as 1, so that no later product overflows
  int64_t last = 0;
  bool empty = false;
  bool overflow = false;
  for (uint32_t axis = 0; axis < tensor.rank; ++axis) {
    const int64_t extent = tensor.shape[axis];
    const int64_t stride = tensor.strides[axis];
    if (extent < 0 || stride < 0) {
      return refuse_argument(call, error, argument, "axis %u: %s %lld is negative", axis,
                             extent < 0 ? "extent" : "stride",
                             static_cast<long long>(extent < 0 ? extent : stride));
    }
    if (extent == 0) {
      empty = true;
      continue;
    }
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(count, extent, &count);
    overflow |= __builtin_mul_overflow(extent - 1, stride, &reach);
    overflow |= __builtin_add_overflow(last, reach, &last);
  }
  // Elements may repeat (stride 0), so the number of elements has its own bound besides the span.
  if (overflow || static_cast<uint64_t>(last) >= kMaxBytes / element_bytes ||
      static_cast<uint64_t>(count) > kMaxBytes / element_bytes) {
    return refuse_argument(call, error, argument, "its size in bytes overflows 63 bits");
  }
  *out_bytes = empty ? 0 : (static_cast<uint64_t>(last) + 1) * element_bytes;
  if (argument.output && may_overlap_itself(tensor)) {
    return refuse_argument(call, error, argument, "its strides let elements share an address");
  }
  return true;
}

bool check_address(const keel_op_call& call, const keel_tensor& tensor, const Argument& argument,
                   uint64_t bytes, CheckError* error) {
  if (bytes == 0) return true;
  if (tensor.data == nullptr) {
    return refuse_argument(call, error, argument, "data is NULL");
  }
  const uint64_t base = reinterpret_cast<uintptr_t>(tensor.data);
  uint64_t end = 0;
  if (__builtin_add_overflow(base, tensor.byte_offset, &end) ||
      (end & (kit::dtype_size(tensor.dtype) - 1)) != 0) {
    return refuse_argument(call, error, argument,
                           "data + byte_offset overflows, or is no multiple of %u bytes",
                           kit::dtype_size(tensor.dtype));
  }
  if (__builtin_add_overflow(end, bytes, &end)) {
    return refuse_argument(call, error, argument, "its end is beyond the address space");
  }
  return true;
}

bool same_layout(const keel_tensor& a, const keel_tensor& b) {
  if (a.dtype != b.dtype || a.rank != b.rank) return false;
  for (uint32_t axis = 0; axis < a.rank; ++axis) {
    if (a.shape[axis] != b.shape[axis]) return false;
    if (a.strides[axis] != b.strides[axis] && a.shape[axis] > 1) return false;
  }
  return true;
}

bool disjoint(const keel_tensor& a, uint64_t a_bytes, const keel_tensor& b, uint64_t b_bytes) {
  if (a_bytes == 0 || b_bytes == 0) return true;
  const auto a_begin = reinterpret_cast<uintptr_t>(kit::first_element(a));
  const auto b_begin = reinterpret_cast<uintptr_t>(kit::first_element(b));
  return a_begin + a_bytes <= b_begin || b_begin + b_bytes <= a_begin;
}

// Checks outputs against inputs and earlier outputs. Compares spans, so an output interleaved with
// the rows of an input is refused too.
bool check_aliasing(const keel_op_call& call, const Schema& schema, const uint64_t* input_bytes,
                    const uint64_t* output_bytes, CheckError* error) {
  for (uint32_t o = 0; o < call.output_count; ++o) {
    const keel_tensor& output = *call.outputs[o];
    for (uint32_t i = 0; i < call.input_count; ++i) {
      if (call.inputs[i] == nullptr) continue;
      const keel_tensor& input = *call.inputs[i];
      if (disjoint(output, output_bytes[o], input, input_bytes[i])) continue;
      const bool equal =
          kit::first_element(output) == kit::first_element(input) && same_layout(output, input);
      if (equal && (schema.outputs[o].in_place >> i & 1u) != 0) continue;
      return refuse_argument(call, error, {schema, true, o}, "%s input %s%s",
                             equal ? "is" : "overlaps", schema.inputs[i].name,
                             equal ? ", which it must not overwrite" : "");
    }
    for (uint32_t other = 0; other < o; ++other) {
      if (disjoint(output, output_bytes[o], *call.outputs[other], output_bytes[other])) continue;
      return refuse_argument(call, error, {schema, true, o}, "overlaps output %s",
                             schema.outputs[other].name);
    }
  }
  return true;
}

// Returns the index of the first argument whose dtype |combination| does not allow, inputs before
// outputs; UINT32_MAX if all match.
uint32_t first_mismatch(const keel_op_call& call, const DtypeCombination& combination) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr && call.inputs[i]->dtype != combination.inputs[i]) return i;
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    if (call.outputs[o]->dtype != combination.outputs[o]) return call.input_count + o;
  }
  return UINT32_MAX;
}

// Returns the index of the first argument whose dtype is not in |mask|, inputs before outputs;
// UINT32_MAX if all are.
uint32_t first_outside(const keel_op_call& call, uint32_t mask) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    if (call.inputs[i] != nullptr && (mask >> call.inputs[i]->dtype & 1u) == 0) return i;
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    if ((mask >> call.outputs[o]->dtype & 1u) == 0) return call.input_count + o;
  }
  return UINT32_MAX;
}

bool check_dtypes(const keel_op_call& call, const Schema& schema, CheckError* error) {
  // Blame the argument at which the longest matching combination fails.
  uint32_t blamed = 0;
  if (schema.mixed_dtypes != 0) {
    blamed = first_outside(call, schema.mixed_dtypes);
    if (blamed == UINT32_MAX) return true;
  } else {
    for (const DtypeCombination& combination : schema.dtypes) {
      const uint32_t mismatch = first_mismatch(call, combination);
      if (mismatch == UINT32_MAX) return true;
      if (mismatch > blamed) blamed = mismatch;
    }
  }
  const bool output = blamed >= call.input_count;
  const Argument argument{schema, output, output ? blamed - call.input_count : blamed};
  const keel_tensor& tensor = output ? *call.outputs[argument.index] : *call.inputs[argument.index];
  return refuse_argument(call, error, argument,
                         "%s is not among the dtypes allowed here (docs/operators.md)",
                         kit::dtype_name(tensor.dtype));
}

bool check_attributes(const keel_op_call& call, const Schema& schema, CheckError* error) {
  for (uint32_t a = 0; a < call.attribute_count; ++a) {
    const AttributeSpec& spec = schema.attributes[a];
    if (spec.kind == AttributeKind::kInt) {
      const auto value = static_cast<double>(call.attributes[a].i);
      if (value >= spec.minimum && value <= spec.maximum) continue;
      return refuse(call, error, "attribute %s: %lld is not within [%g, %g]", spec.name,
                    static_cast<long long>(call.attributes[a].i), spec.minimum, spec.maximum);
    }
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double value = call.attributes[a].f;
    if (value >= spec.minimum && value <= spec.maximum) continue;
    if (value != value && spec.minimum == -kInfinity && spec.maximum == kInfinity) continue;
    return refuse(call, error, "attribute %s: %g is not within [%g, %g]", spec.name, value,
                  spec.minimum, spec.maximum);
  }
  return true;
}

bool check_counts(const keel_op_call& call, const Schema& schema, CheckError* error) {
  const auto wrong = [&](const char* what, uint32_t got, size_t want) {
    return refuse(call, error, "%u %s given, it takes %zu", got, what, want);
  };
  if (call.input_count != schema.inputs.size()) {
    return wrong("inputs", call.input_count, schema.inputs.size());
  }
  if (call.output_count != schema.outputs.size()) {
    return wrong("outputs", call.output_count, schema.outputs.size());
  }
  if (call.attribute_count != schema.attributes.size()) {
    return wrong("attributes", call.attribute_count, schema.attributes.size());
  }
  if ((call.inputs == nullptr && call.input_count != 0) || call.outputs == nullptr ||
      (call.attributes == nullptr && call.attribute_count != 0)) {
    return refuse(call, error, "an array of the call is NULL");
  }
  return true;
}

// Checks every input and output separately.
bool check_tensors(const keel_op_call& call, const Schema& schema, Check check, CheckError* error,
                   uint64_t* input_bytes, uint64_t* output_bytes) {
  for (uint32_t i = 0; i < call.input_count; ++i) {
    const Argument argument{schema, false, i};
    if (call.inputs[i] == nullptr) {
      if (schema.inputs[i].optional) continue;
      return refuse_argument(call, error, argument, "is NULL");
    }
    if (!check_tensor(call, *call.inputs[i], argument, error, &input_bytes[i])) return false;
    if (check == Check::kAll &&
        !check_address(call, *call.inputs[i], argument, input_bytes[i], error)) {
      return false;
    }
  }
  for (uint32_t o = 0; o < call.output_count; ++o) {
    const Argument argument{schema, true, o};
    if (call.outputs[o] == nullptr) return refuse_argument(call, error, argument, "is NULL");
    if (!check_tensor(call, *call.outputs[o], argument, error, &output_bytes[o])) return false;
    if (check == Check::kAll &&
        !check_address(call, *call.outputs[o], argument, output_bytes[o], error)) {
      return false;
    }
  }
  return true;
}

}  // namespace

const Schema* find_schema(std::string_view name) {
  for (const Schema* schema : schemas()) {
    if (schema->name == name) return schema;
  }
  return nullptr;
}

bool has_packed(const Schema& schema) {
  const auto is_packed = [](const auto& tensor) { return tensor.packed; };
  return std::ranges::any_of(schema.inputs, is_packed) ||
         std::ranges::any_of(schema.outputs, is_packed);
}

bool refuse(const keel_op_call& call, CheckError* error, const char* format, ...) {
  const Schema* schema = find_schema(call.op);
  const int length =
      std::snprintf(error->text, sizeof(error->text), "%s: ", schema ? schema->name : "operator");
  va_list values;
  va_start(values, format);
  std::vsnprintf(error->text + length, sizeof(error->text) - static_cast<size_t>(length), format,
                 values);
  va_end(values);
  return false;
}

keel_status check_call(const keel_op_call& call, Check check, CheckError* error) {
  if (call.header.size < sizeof(keel_op_call) || call.header.type != KEEL_STRUCT_OP_CALL) {
    std::snprintf(error->text, sizeof(error->text),
                  "call: its header says %u bytes of type %u, not a keel_op_call's %zu of %d",
                  call.header.size, call.header.type, sizeof(keel_op_call),
                  static_cast<int>(KEEL_STRUCT_OP_CALL));
    return KEEL_INVALID_ARGUMENT;
  }
  const Schema* schema = find_schema(call.op);
  if (schema == nullptr) {
    std::snprintf(error->text, sizeof(error->text), "%u is no operator", call.op);
    return KEEL_NOT_FOUND;
  }
  for (auto* link = static_cast<const keel_header*>(call.header.next); link != nullptr;
       link = static_cast<const keel_header*>(link->next)) {
    if ((link->type & KEEL_STRUCT_REQUIRED) == 0) continue;
    refuse(call, error, "required extension %u is not known", link->type);
    return KEEL_UNSUPPORTED;
  }
  uint64_t input_bytes[kMaxInputs];
  uint64_t output_bytes[kMaxOutputs];
  const bool fits =
      check_counts(call, *schema, error) &&
      check_tensors(call, *schema, check, error, input_bytes, output_bytes) &&
      check_dtypes(call, *schema, error) && check_attributes(call, *schema, error) &&
      schema->check_shapes(call, error) &&
      (check == Check::kLayout || check_aliasing(call, *schema, input_bytes, output_bytes, error));
  return fits ? KEEL_OK : KEEL_INVALID_ARGUMENT;
}

uint32_t dtype_combination(const keel_op_call& call) {
  const std::span<const DtypeCombination> dtypes = find_schema(call.op)->dtypes;
  for (uint32_t index = 0; index < dtypes.size(); ++index) {
    if (first_mismatch(call, dtypes[index]) == UINT32_MAX) return index;
  }
  return 0;  // not reached for a call that passed check_call
}

}  // namespace keel::ops
