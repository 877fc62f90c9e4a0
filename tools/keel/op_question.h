// SPDX-License-Identifier: Apache-2.0
// Operator calls on tensors without memory, to query which kernel would run them.
#ifndef KEEL_TOOLS_KEEL_OP_QUESTION_H_
#define KEEL_TOOLS_KEEL_OP_QUESTION_H_

#include <keel/keel.hpp>
#include <string>
#include <vector>

#include "ops/schema.h"
#include "ops/testing/cases.h"

namespace keel::cli {

// Throws UsageError, listing the operators, for an unknown name.
const ops::Schema& find_op(const std::string& name);

// Returns one case per dtype combination, in the operator's order: dense, aligned, and small but
// with more than a few elements, so that a backend's answer holds for ordinary calls.
std::vector<ops::Case> representative_cases(const ops::Schema& schema);

// Returns "f32", or "bf16_f32" if the result has another dtype, or "f32_g_bf16" if only input g
// distinguishes the combination from an earlier one. Unique within the operator.
std::string dtype_label(const ops::Case& each);

// Changes to a case from the command line.
struct CaseOptions {
  std::string dtype;                    // a dtype_label; empty: the first
  std::vector<std::string> shapes;      // inputs, then outputs: "64x128", "scalar", "none"
  std::vector<std::string> attributes;  // "trans_b=1"
};
// Throws UsageError, listing the valid ones, for an unknown dtype or attribute or an invalid shape.
ops::Case make_case(const ops::Schema& schema, const CaseOptions& options);

// Makes the call; its tensors have no memory.
OpCall make_call(const ops::Case& each);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_KEEL_OP_QUESTION_H_
