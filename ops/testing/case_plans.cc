// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/case_plans.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <utility>

#include "ops/schema.h"
#include "ops/testing/case_builder.h"

namespace keel::ops {

std::vector<Extents> matrices() {
  return {{31, 17}, {1, 1027}, {67, 1}, {3, 257}, {4, 256}, {0, 5}};
}

PlannedTensors alike(const Extents& shape, const std::vector<Distribution>& inputs,
                     size_t outputs) {
  PlannedTensors tensors;
  for (const Distribution distribution : inputs) {
    tensors.inputs.push_back(dense(KEEL_FLOAT32, shape, distribution));
  }
  tensors.outputs.assign(outputs, dense(KEEL_FLOAT32, shape, Distribution::kNaN));
  return tensors;
}

const CasePlan* find_plan(keel_op_id op) {
  static const std::vector<CasePlan> kPlans = [] {
    std::vector<CasePlan> plans;
    for (const auto& family : {elementwise_plans, row_plans, table_plans, product_plans}) {
      for (CasePlan& plan : family()) plans.push_back(std::move(plan));
    }
    return plans;
  }();
  for (const CasePlan& plan : kPlans) {
    if (plan.op == op) return &plan;
  }
  return nullptr;
}

namespace {

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.16g", value);
  return text;
}

// Case ids contain only the first dtypes. If a combination differs from the first one in other
// dtypes, returns these dtypes as text.
std::string dtypes_text(const Schema& schema, uint32_t combination) {
  const DtypeCombination& own = schema.dtypes[combination];
  const DtypeCombination& first = schema.dtypes[0];
  std::string text;
  if (own.inputs[0] != first.inputs[0] || own.outputs[0] != first.outputs[0]) return text;
  for (size_t i = 1; i < schema.inputs.size(); ++i) {
    if (own.inputs[i] == first.inputs[i]) continue;
    text += std::string("/") + schema.inputs[i].name + "_" + short_name(own.inputs[i]);
  }
  return text;
}

}  // namespace

double attribute(keel_op_id op, std::string_view name, const PlannedCall& call) {
  const std::span<const AttributeSpec> attributes = find_schema(op)->attributes;
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const AttributeSpec& each) { return each.name == name; });
  return call.attributes.at(static_cast<size_t>(found - attributes.begin()));
}

PlannedTensors planned_tensors(const CasePlan& plan, uint32_t combination,
                               const PlannedCall& call) {
  const DtypeCombination& dtypes = find_schema(plan.op)->dtypes[combination];
  PlannedTensors tensors = plan.tensors(call);
  for (size_t i = 0; i < tensors.inputs.size(); ++i) {
    CaseTensor& tensor = tensors.inputs[i];
    tensor.dtype = dtypes.inputs[i];
    // For cast; all other integers are indices.
    if (tensor.dtype == KEEL_INT32 && tensor.distribution == Distribution::kLogits) {
      tensor.distribution = Distribution::kIntegers;
    }
  }
  for (size_t o = 0; o < tensors.outputs.size(); ++o) tensors.outputs[o].dtype = dtypes.outputs[o];
  return tensors;
}

Case planned_case(const CasePlan& plan, uint32_t combination, const PlannedCall& call,
                  PlannedTensors tensors, const std::string& prefix, const std::string& suffix) {
  const Schema& schema = *find_schema(plan.op);
  std::string text = prefix + shape_text(call.extents) + dtypes_text(schema, combination);
  std::vector<keel_attribute> attributes;
  for (size_t a = 0; a < plan.attributes.size(); ++a) {
    const double value = call.attributes[a];
    const AttributeSpec& spec = schema.attributes[a];
    attributes.push_back(spec.kind == AttributeKind::kInt
                             ? int_attribute(static_cast<int64_t>(value))
                             : float_attribute(value));
    if (value != plan.attributes[a][0]) {
      text += std::string("/") + spec.name + "_" + number_text(value);
    }
  }
  for (size_t i = 0; i < tensors.inputs.size(); ++i) {
    if (!tensors.inputs[i].present) text += std::string("/no_") + schema.inputs[i].name;
  }
  return make_case(plan.op, combination, text + suffix, std::move(tensors.inputs),
                   std::move(tensors.outputs), std::move(attributes));
}

}  // namespace keel::ops
