// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/cases.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>
#include <utility>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {

const char* short_name(keel_dtype dtype) {
  switch (dtype) {
    case KEEL_FLOAT32:
      return "f32";
    case KEEL_FLOAT16:
      return "f16";
    case KEEL_BFLOAT16:
      return "bf16";
    case KEEL_INT32:
      return "i32";
    case KEEL_INT64:
      return "i64";
    case KEEL_UINT8:
      return "u8";
    case KEEL_FLOAT8_E4M3FN:
      return "e4m3";
    case KEEL_FLOAT8_E5M2:
      return "e5m2";
    default:
      return kit::dtype_name(dtype);
  }
}

namespace {

bool is_dense(const CaseTensor& tensor) {
  return tensor.strides == dense(tensor.dtype, tensor.shape).strides;
}

}  // namespace

CaseTensor dense(keel_dtype dtype, std::vector<int64_t> shape, Distribution distribution,
                 int64_t bound) {
  CaseTensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.distribution = distribution;
  tensor.bound = bound;
  tensor.strides.resize(tensor.shape.size());
  int64_t stride = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    tensor.strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  return tensor;
}

CaseTensor padded(CaseTensor tensor, int64_t padding) {
  int64_t stride = 1;
  for (size_t axis = tensor.shape.size(); axis-- > 0;) {
    if (tensor.shape.size() == 1) stride += padding;
    tensor.strides[axis] = stride;
    stride *= tensor.shape[axis];
    if (axis + 1 == tensor.shape.size()) stride += padding;
  }
  return tensor;
}

CaseTensor transposed(CaseTensor tensor) {
  int64_t stride = 1;
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    tensor.strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  return tensor;
}

CaseTensor broadcast(CaseTensor tensor) {
  tensor.strides.front() = 0;
  return tensor;
}

CaseTensor shifted(CaseTensor tensor, uint64_t elements) {
  tensor.offset = elements;
  return tensor;
}

CaseTensor constant(keel_dtype dtype, std::vector<int64_t> shape, double value) {
  CaseTensor tensor = dense(dtype, std::move(shape), Distribution::kLone, /*bound=*/1);
  tensor.lone = value;
  tensor.places = {0};
  return tensor;
}

CaseTensor absent() {
  CaseTensor tensor;
  tensor.present = false;
  return tensor;
}

keel_attribute int_attribute(int64_t value) {
  keel_attribute attribute;
  attribute.i = value;
  return attribute;
}

keel_attribute float_attribute(double value) {
  keel_attribute attribute;
  attribute.f = value;
  return attribute;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string text;
  for (int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

Case make_case(keel_op_id op, uint32_t combination, const std::string& suffix,
               std::vector<CaseTensor> inputs, std::vector<CaseTensor> outputs,
               std::vector<keel_attribute> attributes) {
  Case result;
  result.op = op;
  result.combination = combination;
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  result.attributes = std::move(attributes);
  result.in_place.assign(result.outputs.size(), -1);
  const keel_dtype to = result.outputs[0].dtype;
  const keel_dtype from = result.inputs.empty() ? to : result.inputs[0].dtype;
  result.id = std::string(find_schema(op)->name) + "/" + short_name(from);
  if (from != to) result.id += std::string("_") + short_name(to);
  result.id += "/" + suffix;
  const auto strided = [](const CaseTensor& tensor) { return tensor.present && !is_dense(tensor); };
  result.strided = std::any_of(result.inputs.begin(), result.inputs.end(), strided) ||
                   std::any_of(result.outputs.begin(), result.outputs.end(), strided);
  return result;
}

Case in_place(Case source, uint32_t output, uint32_t input) {
  source.outputs[output] = source.inputs[input];
  source.in_place[output] = static_cast<int32_t>(input);
  source.id += std::string("/") + find_schema(source.op)->outputs[output].name + "_is_" +
               find_schema(source.op)->inputs[input].name;
  return source;
}

uint32_t common_combinations(keel_op_id op) {
  constexpr uint32_t kCastsOfModels = 8;  // up to int32 to float32
  return op == KEEL_OP_CAST ? kCastsOfModels
                            : static_cast<uint32_t>(find_schema(op)->dtypes.size());
}

std::vector<Case> edge_cases(keel_op_id op) {
#define KEEL_CASES_ENTRY(NUMBER, name, Name) &name##_cases,
  static constexpr std::vector<Case> (*kCases[])() = {nullptr, KEEL_FOR_EACH_OP(KEEL_CASES_ENTRY)};
#undef KEEL_CASES_ENTRY
  return kCases[op]();
}

std::vector<Case> cases_of(const Schema& schema) {
  std::vector<Case> cases = edge_cases(schema.op);
  for (const auto& more : {planned_cases, extent_cases, rounding_cases}) {
    for (Case& each : more(schema.op)) cases.push_back(std::move(each));
  }
  return cases;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Schema* schema : schemas()) {
    for (Case& each : cases_of(*schema)) cases.push_back(std::move(each));
  }
  return cases;
}

}  // namespace keel::ops
