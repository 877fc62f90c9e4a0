// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_split.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace keel {

namespace {

// A number for the part of |first|, the part's lowest rank in the job: FNV-1a over numbers that all
// ranks of the part know.
uint64_t context_of(uint64_t parent, uint64_t splits, uint32_t first) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const uint64_t value : {parent, splits, uint64_t{first}}) {
    for (int byte = 0; byte < 8; ++byte) {
      hash = (hash ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
    }
  }
  return hash;
}

}  // namespace

Status split_hosts(HostRunner& hosts, int32_t color, int32_t key, uint32_t flags,
                   const HostAgreement& wanted, WaitContext& wait_context,
                   std::unique_ptr<HostGroup>* out_group) {
  HostGroup& parent = hosts.group();
  SplitChoice own = {color, key, flags, -1, wanted.chunk_bytes};
  if (wanted.algorithm) own.algorithm = static_cast<int32_t>(*wanted.algorithm);
  std::vector<SplitChoice> choices;
  uint64_t splits = 0;
  KEEL_RETURN_IF_ERROR(hosts.exchange(own, wait_context, &choices, &splits));
  if (color == KEEL_NO_COLOR) return {};
  std::vector<uint32_t> ranks;  // in the parent
  for (uint32_t rank = 0; rank < parent.world(); ++rank) {
    if (choices[rank].color == color) ranks.push_back(rank);
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](uint32_t a, uint32_t b) { return choices[a].key < choices[b].key; });
  std::vector<uint32_t> members;
  std::vector<PeerInfo> peer_infos;
  uint32_t part_rank = 0;
  for (uint32_t rank = 0; rank < ranks.size(); ++rank) {
    members.push_back(parent.members()[ranks[rank]]);
    PeerInfo& peer_info = peer_infos.emplace_back(parent.peer_infos()[ranks[rank]]);
    peer_info.rank = rank;
    peer_info.flags = (peer_info.flags & ~Team::kOfACommunicator) |
                      (choices[ranks[rank]].flags & Team::kOfACommunicator);
    if (ranks[rank] == parent.rank()) part_rank = rank;
  }
  const SplitChoice& first = choices[ranks[0]];
  HostAgreement agreement;
  agreement.chunk_bytes = first.chunk_bytes;
  agreement.rules = parent.agreement().rules;
  // Other parts have other lanes: equal ones, unless measured weights are wanted.
  agreement.lane_shares = parent.agreement().lane_shares;
  if (members != parent.members() && !agreement.lane_shares.empty()) agreement.lane_shares = {1};
  const bool is_forced =
      first.algorithm >= 0 && static_cast<uint32_t>(first.algorithm) < kAlgorithms;
  if (is_forced) agreement.algorithm = static_cast<Algorithm>(first.algorithm);
  const uint32_t lowest = *std::min_element(members.begin(), members.end());
  const uint64_t context = context_of(parent.context(), splits, lowest);
  const Status made = HostGroup::make(parent.shared_job(), std::move(members), part_rank, context,
                                      peer_infos, agreement, wait_context.deadline(), out_group);
  if (made.ok()) return {};
  const Status named = made.with_prefix(
      fmt::format("{} could not enter the new communicator: ", parent.name(parent.rank())));
  parent.abort(failure(KEEL_RANK_FAILED, "{}", named.text()));
  return made;
}

}  // namespace keel
