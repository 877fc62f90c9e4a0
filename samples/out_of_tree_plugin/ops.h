// SPDX-License-Identifier: Apache-2.0
// The chip's operators: fill, add and cast, the set that KEEL_CAPABILITY_OPS requires.
#ifndef TINYCHIP_OPS_H_
#define TINYCHIP_OPS_H_

#include <keel/abi.h>

namespace tinychip {

// Returns whether |call| is one of the three operators, on dense tensors of supported dtypes.
bool takes(const keel_op_call& call);

// Runs a call that takes() accepted, in the calling thread: |output| = op(|inputs|).
void run(keel_op_id op, double fill_value, const keel_tensor* inputs, const keel_tensor& output);

}  // namespace tinychip

#endif  // TINYCHIP_OPS_H_
