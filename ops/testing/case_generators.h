// SPDX-License-Identifier: Apache-2.0
// Case generators of the operators.
#ifndef KEEL_OPS_TESTING_CASE_GENERATORS_H_
#define KEEL_OPS_TESTING_CASE_GENERATORS_H_

#include <vector>

#include "ops/testing/cases.h"

namespace keel::ops {

// fill_cases(), cast_cases(), ...: the edge cases of an operator, deterministic and in a fixed
// order; each in ops/testing/cases_<family>.cc.
#define KEEL_DECLARE_CASES(NUMBER, name, Name) std::vector<Case> name##_cases();
KEEL_FOR_EACH_OP(KEEL_DECLARE_CASES)
#undef KEEL_DECLARE_CASES

// How many combinations of dtypes, from the first, are tried in every shape and layout: all but for
// cast, whose pairs beyond those of models have fewer cases.
uint32_t common_combinations(keel_op_id op);

// Generators shared by all or several operators; empty for an operator to which they do not apply.
//
// cases_planned.cc: pairwise combinations of attributes, optional inputs, dtypes, aliasing and
// layouts, and special content in each input, from the operator's plan.
std::vector<Case> planned_cases(keel_op_id op);
// cases_extent.cc: rows longer and more numerous than any block, and far offsets and strides.
std::vector<Case> extent_cases(keel_op_id op);
// cases_rounding.cc: rounding, saturation and conversion, value by value.
std::vector<Case> rounding_cases(keel_op_id op);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CASE_GENERATORS_H_
