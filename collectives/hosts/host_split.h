// SPDX-License-Identifier: Apache-2.0
// Splits a communicator that spans hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_SPLIT_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_SPLIT_H_

#include <cstdint>
#include <memory>

#include "collectives/hosts/host_runner.h"

namespace keel {

// Called by every rank, on the thread for the rank's operations. The ranks of one |color| become a
// group in the order of |key|, then of the ranks in the parent; |*out_group| stays empty for
// KEEL_NO_COLOR. |flags|: the rank's bits of Team::kOfACommunicator in the part. |wanted|: applies
// if the rank becomes rank 0 of its part. A failure ends the parent on all hosts.
Status split_hosts(HostRunner& hosts, int32_t color, int32_t key, uint32_t flags,
                   const HostAgreement& wanted, WaitContext& wait_context,
                   std::unique_ptr<HostGroup>* out_group);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_SPLIT_H_
