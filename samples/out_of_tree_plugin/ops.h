// SPDX-License-Identifier: Apache-2.0
// The operators of the chip: what KEEL_CLAIM_OPS asks for, which is fill, add and cast.
#ifndef TINYCHIP_OPS_H_
#define TINYCHIP_OPS_H_

#include <keel/abi.h>

namespace tinychip {

// Whether |call| is one of them on dense tensors of dtypes the chip has.
bool takes(const keel_op_call& call);

// Runs a call that was taken, in the calling thread: |output| = op(|inputs|).
void run(keel_op_id op, double fill_value, const keel_tensor* inputs, const keel_tensor& output);

}  // namespace tinychip

#endif  // TINYCHIP_OPS_H_
