// SPDX-License-Identifier: Apache-2.0
// All-gather of control data between hosts.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "collectives/all_gather_control.h"
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
// their hosts have, over |lane| of the wires. Collectives by lanes send between the same ranks, so
// that a split of 1,024 ranks on 8 hosts makes no connection but those 7 of a rank. |context|: of
// the inner group; |collective|: of the fingerprint; |inside|: for the ranks of the host,
// |between|: for those of others. All ranks call. After a failure of the wires, they are failed,
// and the memory is free.
template <typename Data>
Status exchange_between_hosts(HostGroup& group, RankContext& context, uint8_t collective,
                              uint32_t lane, const Data& own, WaitContext& inside,
                              WireWait& between, std::vector<Data>* out_all);

// The part between the hosts: |local| holds |size| bytes of each rank of this host, |out_all| gets
// those of all ranks.
Status exchange_local_data(HostGroup& group, uint8_t collective, uint32_t lane, const void* local,
                           size_t size, WireWait& between, void* out_all);

template <typename Data>
Status exchange_between_hosts(HostGroup& group, RankContext& context, uint8_t collective,
                              uint32_t lane, const Data& own, WaitContext& inside,
                              WireWait& between, std::vector<Data>* out_all) {
  std::vector<Data> local;
  context.call = context.sequence;
  KEEL_RETURN_IF_ERROR(exchange(context, collective, own, inside, &local));
  std::vector<Data> all(group.world());
  KEEL_RETURN_IF_ERROR(exchange_local_data(group, collective, lane, local.data(), sizeof(Data),
                                           between, all.data()));
  *out_all = std::move(all);
  return {};
}

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_EXCHANGE_H_
