// SPDX-License-Identifier: Apache-2.0
// All-gather of the choices of a split between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "collectives/hosts/host_group.h"
#include "collectives/hosts/wire_wait.h"
#include "collectives/rank_context.h"
#include "core/status.h"

namespace keel {

// Choice of one rank in a split.
struct SplitChoice {
  int32_t color;
  int32_t key;
  uint32_t flags;
  int32_t algorithm;  // -1: none
  uint64_t chunk_bytes;
};

// Gathers |own| of every rank of |group|, by rank: first among the ranks of each host, in shared
// memory; then local rank i of a host and local rank i of every other host give each other what
// their hosts have. Collectives by lanes send between the same ranks, so that a split of 1,024
// ranks on 8 hosts makes no connection but those 7 of a rank. |context|: of the inner group;
// |inside|: for the ranks of the host, |between|: for those of others. All ranks call. After a
// failure of the wires, they are failed, and the memory is free.
Status exchange_choices(HostGroup& group, RankContext& context, const SplitChoice& own,
                        WaitContext& inside, WireWait& between, std::vector<SplitChoice>* out_all);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
