// SPDX-License-Identifier: Apache-2.0
// Pinned bounce buffers for copies between backends and for the bridge.
#ifndef KEEL_CORE_STAGING_H_
#define KEEL_CORE_STAGING_H_

#include "core/device.h"
#include "core/status.h"

namespace keel {

// Returns the NUMA node for a device's bounce buffers; -1 if the machine has only one node, or the
// device's node is unknown.
int find_staging_node(const keel_device_info& info);

// Allocates pinned memory of |device|, on its NUMA node if the machine has several and the system
// permits. Freed through device.memory().
Status alloc_staging(Device& device, uint64_t size, void** out_pointer);

}  // namespace keel

#endif  // KEEL_CORE_STAGING_H_
