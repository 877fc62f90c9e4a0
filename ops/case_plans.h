// SPDX-License-Identifier: Apache-2.0
// What cases an operator is given beside those of its own file: its extents, the values of its
// attributes, and its tensors, from which ops/cases_planned.cc makes every pair.
#ifndef KEEL_OPS_CASE_PLANS_H_
#define KEEL_OPS_CASE_PLANS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ops/cases.h"

namespace keel::ops {

using Extents = std::vector<int64_t>;

// One call of a plan: the operator says what each number of |extents| is.
struct PlannedCall {
  Extents extents;
  std::vector<double> attributes;
};

// Dense, and of any dtype: cases have those of the schema.
struct PlannedTensors {
  std::vector<CaseTensor> inputs;
  std::vector<CaseTensor> outputs;
};

struct CasePlan {
  keel_op_id op;
  // The choices for each part of PlannedCall::extents: for most operators there is one part, for
  // products each extent is one. The first choice is odd; the last three are one more than a block
  // of most kernels, a block, which keeps rows aligned, and none.
  std::vector<std::vector<Extents>> extents;
  // The values of each attribute, the usual one first.
  std::vector<std::vector<double>> attributes;
  PlannedTensors (*tensors)(const PlannedCall& call);
  // Optional inputs that are given together or not at all; each of the others stands alone.
  std::vector<uint32_t> together = {};
  // Whether kernels take tensors that are not dense.
  bool is_strided = false;
  // Of operators of rows: the extents of several rows of so many columns; else NULL.
  Extents (*rows)(int64_t columns) = nullptr;
};

// One odd matrix, one long row, one column, rows of one element more than a block, of a block, and
// none.
std::vector<Extents> matrices();
// Inputs of |shape|, drawn from |inputs|, and |outputs| tensors of the same shape.
PlannedTensors alike(const Extents& shape, const std::vector<Distribution>& inputs,
                     size_t outputs = 1);

// The plans, by family: case_plans_<family>.cc.
std::vector<CasePlan> elementwise_plans();
std::vector<CasePlan> row_plans();
std::vector<CasePlan> table_plans();
std::vector<CasePlan> product_plans();

// NULL for an operator without: transpose, whose attribute is a shape's.
const CasePlan* find_plan(keel_op_id op);

// The tensors of |call| in the dtypes of a combination.
PlannedTensors planned_tensors(const CasePlan& plan, uint32_t combination, const PlannedCall& call);
// The case of |tensors|, in which those left out are absent. The id is |prefix|, the extents, the
// attributes that are not the usual ones, the inputs that are left out, and |suffix|.
Case planned_case(const CasePlan& plan, uint32_t combination, const PlannedCall& call,
                  PlannedTensors tensors, const std::string& prefix, const std::string& suffix);

}  // namespace keel::ops

#endif  // KEEL_OPS_CASE_PLANS_H_
