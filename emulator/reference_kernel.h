// SPDX-License-Identifier: Apache-2.0
// Keel's operators on the emulated chip: the float64 reference, rounded to the outputs' dtypes.
// Slow, and correct by definition; results do not show any chip's numerics.
#ifndef KEEL_EMULATOR_REFERENCE_KERNEL_H_
#define KEEL_EMULATOR_REFERENCE_KERNEL_H_

#include "emulator/stream.h"
#include "ops/schema.h"

namespace keel::emulator {

// Returns whether |call| conforms to its operator's schema; the data pointers of |call| may be
// NULL.
bool reference_takes(const keel_op_call& call);
// Enqueues a copy of |call|, whose tensors lie in memory of the stream's device.
Status launch_reference(Stream& stream, const keel_op_call& call);

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_REFERENCE_KERNEL_H_
