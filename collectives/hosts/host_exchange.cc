// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <string>
#include <utility>

#include "collectives/all_gather_control.h"
#include "collectives/hosts/host_messages.h"
#include "collectives/operation.h"

namespace keel {

Status exchange_choices(HostGroup& group, RankContext& context, const SplitChoice& own,
                        WaitContext& inside, WireWait& between, std::vector<SplitChoice>* out_all) {
  std::vector<std::vector<SplitChoice>> hosts(group.hosts().size());
  std::vector<SplitChoice>& local = hosts[group.host()];
  context.call = context.sequence;
  KEEL_RETURN_IF_ERROR(exchange(context, kSplitCollective, own, inside, &local));
  Fingerprint print;
  print.collective = kSplitCollective;
  const auto mark = std::bit_cast<WireMark>(print);
  std::deque<WireRequest> requests;
  std::vector<std::pair<uint32_t, const WireRequest*>> awaited;  // by the rank that gives
  const auto make = [&](std::vector<SplitChoice>& choices) -> WireRequest& {
    WireRequest& request = requests.emplace_back();
    request.set_memory(choices.data(), choices.size() * sizeof(SplitChoice));
    request.set_mark(mark);
    return request;
  };
  for (uint32_t host = 0; host < hosts.size(); ++host) {
    if (host == group.host()) continue;
    const std::vector<uint32_t>& ranks = group.hosts()[host];
    hosts[host].resize(ranks.size());
    const uint32_t giver = ranks[group.local_rank() % ranks.size()];
    awaited.emplace_back(giver, &make(hosts[host]));
    group.wires().post_receive(group.members()[giver], HostMessages::kLane, requests.back());
    // More than one where the other host has more ranks, perhaps none where it has fewer.
    for (size_t i = group.local_rank(); i < ranks.size(); i += local.size()) {
      group.wires().post_send(group.members()[ranks[i]], HostMessages::kLane, make(local));
    }
  }
  const auto is_over = [&] {
    return std::all_of(requests.begin(), requests.end(),
                       [](const WireRequest& request) { return request.is_done(); });
  };
  Status status = between.until(is_over);
  if (status.code() == KEEL_TIMED_OUT) {
    std::vector<std::string> names;
    for (const auto& [rank, request] : awaited) {
      if (!request->is_done()) names.push_back(group.name(rank));
    }
    status = failure(KEEL_TIMED_OUT, "{} did not answer in time", fmt::join(names, ", "));
  }
  for (const WireRequest& request : requests) {
    if (!status.ok() || !request.is_done()) break;
    status = request.status();
    if (status.ok() && request.mark() != mark) {
      status = failure(KEEL_INVALID_ARGUMENT, "mismatch: a rank called {}, rank {} split()",
                       describe(std::bit_cast<Fingerprint>(request.mark())), group.rank());
    }
  }
  if (status.ok()) {
    out_all->resize(group.world());
    for (uint32_t host = 0; host < hosts.size(); ++host) {
      for (size_t i = 0; i < hosts[host].size(); ++i) {
        (*out_all)[group.hosts()[host][i]] = hosts[host][i];
      }
    }
    return {};
  }
  group.wires().cancel(status);
  while (!is_over()) {
    if (!group.wires().progress()) group.wires().park(WaitContext::kSliceNs);
  }
  return status;
}

}  // namespace keel
