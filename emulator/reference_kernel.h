// SPDX-License-Identifier: Apache-2.0
// The operators of Keel on the emulated chip: the float64 reference, rounded to the
// outputs' dtypes. Slow, and right by definition, so that a result says nothing of any
// chip's numerics.
#ifndef KEEL_EMULATOR_REFERENCE_KERNEL_H_
#define KEEL_EMULATOR_REFERENCE_KERNEL_H_

#include "emulator/stream.h"
#include "ops/schema.h"

namespace keel::emulator {

// Whether |call| fits its operator's schema; its data pointers may be NULL.
bool reference_takes(const keel_op_call& call);
// Enqueues |call|, whose tensors lie in memory of the stream's device. Copies it.
Status launch_reference(Stream& stream, const keel_op_call& call);

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_REFERENCE_KERNEL_H_
