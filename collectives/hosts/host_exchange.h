// SPDX-License-Identifier: Apache-2.0
// All-gather of control data between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_

#include <cstdint>

#include "collectives/hosts/host_group.h"
#include "collectives/hosts/wire_wait.h"
#include "core/status.h"

namespace keel {

// Gathers |bytes| of host memory from every rank of |group|, in rank order, at |out_all|. All ranks
// call with the same size. After a failure the wires are failed, and the memory is free.
Status exchange_between_hosts(HostGroup& group, const void* own, void* out_all, uint64_t bytes,
                              WireWait& wait);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
