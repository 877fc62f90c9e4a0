// SPDX-License-Identifier: Apache-2.0
// Checks that a rank makes of its own call.
#ifndef KEEL_COLLECTIVES_CALL_CHECK_H_
#define KEEL_COLLECTIVES_CALL_CHECK_H_

#include <cstdint>

#include "collectives/operation.h"
#include "core/device.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// Checks whether rank |rank| of |world|, which is on |device|, may call |request| on |stream|:
// types, counts, root and peers, the memory of its buffers, and how they overlap. A failure names
// the argument. A mismatch with the calls of other ranks is found later.
Status check_call(const Request& request, Device& device, Stream& stream, uint32_t rank,
                  uint32_t world);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_CALL_CHECK_H_
