// SPDX-License-Identifier: Apache-2.0
// Pinned host memory that copies between backends and the bridge pass through.
#ifndef KEEL_CORE_STAGING_H_
#define KEEL_CORE_STAGING_H_

#include "core/device.h"
#include "core/status.h"

namespace keel {

// The NUMA node to stage on for a device; -1 where there is only one or none is known.
int find_staging_node(const keel_device_info& info);

// Pinned memory of |device|, on its NUMA node where the machine has several and the
// system lets us: freed through device.memory().
Status alloc_staging(Device& device, uint64_t size, void** out_pointer);

}  // namespace keel

#endif  // KEEL_CORE_STAGING_H_
