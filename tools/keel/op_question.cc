// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/op_question.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <numeric>
#include <optional>
#include <string_view>

#include "ops/testing/case_builder.h"
#include "tools/command.h"

namespace keel::cli {
namespace {

using ops::AttributeKind;
using ops::Case;
using ops::CaseTensor;
using ops::Schema;

int64_t element_count(const CaseTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t element_count(const Case& each) {
  int64_t total = 0;
  for (const auto* tensors : {&each.inputs, &each.outputs}) {
    for (const CaseTensor& tensor : *tensors) {
      if (tensor.present) total += element_count(tensor);
    }
  }
  return total;
}

bool is_ordinary(const Case& each) {
  const auto ordinary = [](const CaseTensor& tensor) {
    return !tensor.present || (tensor.offset == 0 && element_count(tensor) > 0);
  };
  return !each.strided && std::ranges::all_of(each.inputs, ordinary) &&
         std::ranges::all_of(each.outputs, ordinary) &&
         std::ranges::all_of(each.in_place, [](int32_t input) { return input < 0; });
}

// Prefers the smallest case of at least kEnough elements in total, else the largest case.
bool is_better(const Case& a, const Case& b) {
  constexpr int64_t kEnough = 64;
  const int64_t a_count = element_count(a);
  const int64_t b_count = element_count(b);
  if ((a_count >= kEnough) != (b_count >= kEnough)) return a_count >= kEnough;
  return a_count >= kEnough ? a_count < b_count : a_count > b_count;
}

std::vector<std::string> tensor_names(const Schema& schema) {
  std::vector<std::string> names;
  for (const auto& input : schema.inputs) names.emplace_back(input.name);
  for (const auto& output : schema.outputs) names.emplace_back(output.name);
  return names;
}

template <typename Number>
bool parse(std::string_view text, Number* out_number) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *out_number);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

// Parses "64x128". Returns nothing for invalid text, or for a shape larger than any memory, whose
// strides may overflow.
std::optional<std::vector<int64_t>> parse_shape(std::string_view text) {
  constexpr int64_t kMostElements = int64_t{1} << 48;
  std::vector<int64_t> shape;
  if (text == "scalar") return shape;
  int64_t left = kMostElements;
  while (true) {
    const size_t cross = text.find('x');
    int64_t extent = 0;
    if (!parse(text.substr(0, cross), &extent) || extent < 0 || extent > left) return std::nullopt;
    if (shape.size() == KEEL_MAX_RANK) return std::nullopt;
    left /= std::max<int64_t>(extent, 1);
    shape.push_back(extent);
    if (cross == std::string_view::npos) return shape;
    text.remove_prefix(cross + 1);
  }
}

void set_shapes(const Schema& schema, const std::vector<std::string>& shapes, Case* each) {
  const std::vector<std::string> names = tensor_names(schema);
  if (shapes.size() != names.size()) {
    throw UsageError("--shape has " + std::to_string(shapes.size()) + " shapes, " + schema.name +
                     " has " + std::to_string(names.size()) + " tensors: " + join(names));
  }
  const ops::DtypeCombination& dtypes = schema.dtypes[each->combination];
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool is_input = i < each->inputs.size();
    const size_t index = is_input ? i : i - each->inputs.size();
    CaseTensor& tensor = is_input ? each->inputs[index] : each->outputs[index];
    if (is_input && shapes[i] == "none" && schema.inputs[index].optional) {
      tensor = ops::absent();
      continue;
    }
    const auto shape = parse_shape(shapes[i]);
    if (!shape) {
      throw UsageError("--shape: '" + shapes[i] + "' is no shape of " + names[i] +
                       ": 64x128, scalar, or none for an optional input");
    }
    tensor = ops::dense(is_input ? dtypes.inputs[index] : dtypes.outputs[index], *shape);
  }
}

void set_attribute(const Schema& schema, const std::string& text, Case* each) {
  const size_t equals = text.find('=');
  const std::string_view name = std::string_view(text).substr(0, equals);
  const std::string_view value =
      equals == std::string::npos ? std::string_view() : std::string_view(text).substr(equals + 1);
  std::vector<std::string> known;
  for (size_t i = 0; i < schema.attributes.size(); ++i) {
    const ops::AttributeSpec& spec = schema.attributes[i];
    known.emplace_back(spec.name);
    if (name != spec.name) continue;
    keel_attribute& attribute = each->attributes[i];
    if (spec.kind == AttributeKind::kInt ? parse(value, &attribute.i)
                                         : parse(value, &attribute.f)) {
      return;
    }
    throw UsageError("--set: '" + text + "' gives " + spec.name + " no number");
  }
  throw UsageError("--set: '" + text + "' names no attribute of " + schema.name +
                   "; there are: " + join(known));
}

}  // namespace

const Schema& find_op(const std::string& name) {
  if (const Schema* schema = ops::find_schema(name)) return *schema;
  std::vector<std::string> known;
  for (const Schema* schema : ops::schemas()) known.emplace_back(schema->name);
  throw UsageError("operator '" + name + "' is none; there are: " + join(known));
}

std::vector<Case> representative_cases(const Schema& schema) {
  std::vector<std::optional<Case>> best(schema.dtypes.size());
  for (Case& each : ops::edge_cases(schema.op)) {
    std::optional<Case>& chosen = best[each.combination];
    if (is_ordinary(each) && (!chosen || is_better(each, *chosen))) chosen = std::move(each);
  }
  std::vector<Case> cases;
  for (std::optional<Case>& each : best) cases.push_back(std::move(each.value()));
  return cases;
}

std::string dtype_label(const Case& each) {
  const size_t begin = each.id.find('/') + 1;  // "matmul/bf16_f32/nn/..."
  std::string label = each.id.substr(begin, each.id.find('/', begin) - begin);
  // An id contains the dtypes of the first input and the first output. If an earlier combination
  // has the same two, the label adds the first input that differs.
  const Schema& schema = *ops::find_schema(each.op);
  const ops::DtypeCombination& own = schema.dtypes[each.combination];
  for (const ops::DtypeCombination& earlier : schema.dtypes.first(each.combination)) {
    if (earlier.inputs[0] != own.inputs[0] || earlier.outputs[0] != own.outputs[0]) continue;
    const auto differs = std::ranges::mismatch(earlier.inputs, own.inputs);
    if (differs.in2 == std::end(own.inputs)) continue;
    const auto input = static_cast<size_t>(differs.in2 - std::begin(own.inputs));
    label += std::string("_") + schema.inputs[input].name + "_" + ops::short_name(*differs.in2);
    break;
  }
  return label;
}

Case make_case(const Schema& schema, const CaseOptions& options) {
  std::vector<Case> cases = representative_cases(schema);
  std::vector<std::string> labels;
  for (const Case& each : cases) labels.push_back(dtype_label(each));
  const auto found =
      options.dtype.empty() ? labels.begin() : std::ranges::find(labels, options.dtype);
  if (found == labels.end()) {
    throw UsageError("dtype '" + options.dtype + "' is none of " + schema.name +
                     "; there are: " + join(labels));
  }
  Case each = std::move(cases[static_cast<size_t>(found - labels.begin())]);
  if (!options.shapes.empty()) set_shapes(schema, options.shapes, &each);
  for (const std::string& text : options.attributes) set_attribute(schema, text, &each);
  return each;
}

OpCall make_call(const Case& each) {
  std::vector<keel_tensor> tensors;
  tensors.reserve(each.inputs.size() + each.outputs.size());  // operands point into the vector
  const auto operands = [&](const std::vector<CaseTensor>& from) {
    std::vector<Operand> list;
    for (const CaseTensor& tensor : from) {
      if (!tensor.present) {
        list.emplace_back(nullptr);
        continue;
      }
      tensors.push_back(make_tensor(/*data=*/nullptr, tensor.dtype, tensor.shape, tensor.strides));
      tensors.back().byte_offset = tensor.offset * kit::dtype_size(tensor.dtype);
      list.emplace_back(tensors.back());
    }
    return list;
  };
  const std::vector<Operand> inputs = operands(each.inputs);
  const std::vector<Operand> outputs = operands(each.outputs);
  const Schema& schema = *ops::find_schema(each.op);
  std::vector<Attribute> attributes;
  for (size_t i = 0; i < each.attributes.size(); ++i) {
    const bool is_int = schema.attributes[i].kind == AttributeKind::kInt;
    attributes.push_back(is_int ? Attribute(each.attributes[i].i)
                                : Attribute(each.attributes[i].f));
  }
  return OpCall(each.op, inputs, outputs, attributes);
}

}  // namespace keel::cli
