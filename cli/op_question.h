// SPDX-License-Identifier: Apache-2.0
// Calls of operators without memory, for asking what would run them.
#ifndef KEEL_CLI_OP_QUESTION_H_
#define KEEL_CLI_OP_QUESTION_H_

#include <keel/keel.hpp>
#include <string>
#include <vector>

#include "ops/cases.h"
#include "ops/schema.h"

namespace keel::cli {

// UsageError, which lists the operators, for a name that is none.
const ops::Schema& find_op(const std::string& name);

// One case a dtype combination of the operator, in its order: dense, aligned, small but
// more than a few elements, so that what a backend says of it holds for ordinary calls.
std::vector<ops::Case> representative_cases(const ops::Schema& schema);

// "f32", or "bf16_f32" where the result has another dtype; "f32_g_bf16" for one that only
// input g tells from an earlier one. Unique within the operator.
std::string dtype_label(const ops::Case& each);

// What the command line changes about a case.
struct CaseOptions {
  std::string dtype;                    // a dtype_label; empty: the first
  std::vector<std::string> shapes;      // inputs, then outputs: "64x128", "scalar", "none"
  std::vector<std::string> attributes;  // "trans_b=1"
};
// UsageError for a dtype, a shape or an attribute that is none, with those there are.
ops::Case make_case(const ops::Schema& schema, const CaseOptions& options);

// The call, its tensors without memory.
OpCall make_call(const ops::Case& each);

}  // namespace keel::cli

#endif  // KEEL_CLI_OP_QUESTION_H_
