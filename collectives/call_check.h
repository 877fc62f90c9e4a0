// SPDX-License-Identifier: Apache-2.0
// Checks by a rank of its own call.
#ifndef KEEL_COLLECTIVES_CALL_CHECK_H_
#define KEEL_COLLECTIVES_CALL_CHECK_H_

#include <cstdint>

#include "collectives/operation.h"
#include "core/device.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// Checks whether rank |rank| of |world|, on |device|, may call |request| on |stream|: types,
// counts, root and peers, the memory of the buffers, and their overlap. A failure names the
// argument. A mismatch with the calls of the peers is found later.
Status check_call(const Request& request, Device& device, Stream& stream, uint32_t rank,
                  uint32_t world);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_CALL_CHECK_H_
