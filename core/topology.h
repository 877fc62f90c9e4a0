// SPDX-License-Identifier: Apache-2.0
// The text of keel_topology_get.
#ifndef KEEL_CORE_TOPOLOGY_H_
#define KEEL_CORE_TOPOLOGY_H_

#include <string>
#include <vector>

#include "core/device.h"
#include "core/status.h"

namespace keel {

// Writes the machine, with |devices| placed in it, as JSON text (docs/operations.md). With
// |synthetic|, describes that machine, without |devices|.
Status describe_topology(const char* synthetic, const std::vector<Ref<Device>>& devices,
                         std::string* out_json);

}  // namespace keel

#endif  // KEEL_CORE_TOPOLOGY_H_
