// SPDX-License-Identifier: Apache-2.0
// Reference functions of the operators: fill_reference(), cast_reference(), ..., each in
// ops/testing/reference_<family>.cc. A function computes the float64 reference into the outputs of
// |w|.
#ifndef KEEL_OPS_TESTING_REFERENCE_FUNCTIONS_H_
#define KEEL_OPS_TESTING_REFERENCE_FUNCTIONS_H_

#include <keel/ops.h>

namespace keel::ops {

class Workspace;  // ops/testing/reference_workspace.h

#define KEEL_DECLARE_REFERENCE(NUMBER, name, Name) void name##_reference(Workspace& w);
KEEL_FOR_EACH_OP(KEEL_DECLARE_REFERENCE)
#undef KEEL_DECLARE_REFERENCE

}  // namespace keel::ops

#endif  // KEEL_OPS_TESTING_REFERENCE_FUNCTIONS_H_
