// SPDX-License-Identifier: Apache-2.0
// Building blocks of the case generators.
#ifndef KEEL_OPS_TESTING_CASE_BUILDER_H_
#define KEEL_OPS_TESTING_CASE_BUILDER_H_

#include <string>
#include <vector>

#include "ops/schema.h"
#include "ops/testing/cases.h"

namespace keel::ops {

// A dense row-major tensor.
CaseTensor dense(keel_dtype dtype, std::vector<int64_t> shape,
                 Distribution distribution = Distribution::kNormal, int64_t bound = 0);
// Rows are |padding| elements further apart than their length; a rank-1 tensor has stride 1 +
// |padding|.
CaseTensor padded(CaseTensor tensor, int64_t padding);
// Stored with its axes in reverse order.
CaseTensor transposed(CaseTensor tensor);
// All rows share the same memory (stride 0 along the first axis).
CaseTensor broadcast(CaseTensor tensor);
// Begins |elements| elements into the allocation, so the tensor is aligned to its element size
// only.
CaseTensor shifted(CaseTensor tensor, uint64_t elements);
// Every element is |value|.
CaseTensor constant(keel_dtype dtype, std::vector<int64_t> shape, double value);
// An optional input left out.
CaseTensor absent();

keel_attribute int_attribute(int64_t value);
keel_attribute float_attribute(double value);

// "f32", "e4m3"; the full name of a dtype without a short name.
const char* short_name(keel_dtype dtype);
// "7x13"; "scalar" for rank 0.
std::string shape_text(const std::vector<int64_t>& shape);

// Completes a case. The id is "operator/dtype/|suffix|"; no output is in place.
Case make_case(keel_op_id op, uint32_t combination, const std::string& suffix,
               std::vector<CaseTensor> inputs, std::vector<CaseTensor> outputs,
               std::vector<keel_attribute> attributes = {});
// |source| with output |output| in place of input |input|.
Case in_place(Case source, uint32_t output, uint32_t input);

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_CASE_BUILDER_H_
