// SPDX-License-Identifier: Apache-2.0
// The built-in choice of an algorithm between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_CHOICE_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_CHOICE_H_

#include <cstdint>
#include <functional>

#include "collectives/operation.h"
#include "collectives/selection/algorithm.h"

namespace keel {

// HostSetting says among which ranks a call runs; it is the same on all of them.
struct HostSetting {
  uint32_t world = 0;    // ranks of the communicator
  uint32_t between = 0;  // ranks among which messages move the data: all, or one of each host
  bool shares_processors = false;  // HostGroup::shares_processors()
};

// Returns the algorithm for |request|, as if all ranks sent |bytes|, among those that |is_possible|
// admits; else `direct`.
Algorithm choose_between_hosts(const Request& request, uint64_t bytes, const HostSetting& setting,
                               const std::function<bool(Algorithm)>& is_possible);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_CHOICE_H_
