// SPDX-License-Identifier: Apache-2.0
// Plans of additional cases: an operator's extents, attribute values and tensors, from which
// ops/testing/cases_planned.cc builds all pairs.
#ifndef KEEL_OPS_TESTING_CASE_PLANS_H_
#define KEEL_OPS_TESTING_CASE_PLANS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/testing/cases.h"

namespace keel::ops {

using Extents = std::vector<int64_t>;

// One call of a plan. The operator defines the meaning of each number in |extents|.
struct PlannedCall {
  Extents extents;
  std::vector<double> attributes;
};

// Value of the attribute |name| of |op| in |call|. Requires an operator with that attribute.
double attribute(keel_op_id op, std::string_view name, const PlannedCall& call);

// Dense tensors of any dtype; the cases replace the dtypes by the schema's.
struct PlannedTensors {
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;
};

struct CasePlan {
  keel_op_id op;
  // Choices for each part of PlannedCall::extents. Most operators have one part; for products each
  // extent is a part. The first choice is odd. The last three are a block of most kernels plus one,
  // a block (rows stay aligned), and zero.
  std::vector<std::vector<Extents>> extents;
  // Values of each attribute, the default first.
  std::vector<std::vector<double>> attributes;
  PlannedTensors (*tensors)(const PlannedCall& call);
  // Optional inputs that are present or absent together; each remaining optional input varies
  // alone.
  std::vector<uint32_t> together = {};
  // Whether kernels accept tensors that are not dense.
  bool is_strided = false;
  // For row operators: extents of several rows of |columns|; otherwise NULL.
  Extents (*rows)(int64_t columns) = nullptr;
};

// Odd matrix, long row, single column, rows of a block plus one, rows of a block, empty.
std::vector<Extents> matrices();
// Inputs of |shape|, one for each of the distributions |inputs|, and |outputs| tensors of the same
// shape.
PlannedTensors alike(const Extents& shape, const std::vector<Distribution>& inputs,
                     size_t outputs = 1);

// Plans by family: case_plans_<family>.cc.
std::vector<CasePlan> elementwise_plans();
std::vector<CasePlan> row_plans();
std::vector<CasePlan> table_plans();
std::vector<CasePlan> product_plans();

// NULL for transpose, whose attribute depends on the shape, and for elementwise, reduce, gather and
// scatter, whose own cases vary all of this.
const CasePlan* find_plan(keel_op_id op);

// The tensors of |call| with the dtypes of |combination|.
PlannedTensors planned_tensors(const CasePlan& plan, uint32_t combination, const PlannedCall& call);
// Builds the case of |tensors|; an absent tensor is an omitted input. The id is |prefix|, the
// extents, the attributes that differ from the default, the omitted inputs, and |suffix|.
Case planned_case(const CasePlan& plan, uint32_t combination, const PlannedCall& call,
                  PlannedTensors tensors, const std::string& prefix, const std::string& suffix);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CASE_PLANS_H_
