// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_exchange.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "collectives/operation.h"
#include "collectives/transports/wait_policy.h"

namespace keel {

Status exchange_local_data(HostGroup& group, uint8_t collective, uint32_t lane, const void* local,
                           size_t size, WireWait& between, void* out_all) {
  std::vector<std::vector<char>> hosts(group.hosts().size());
  const uint32_t local_size = static_cast<uint32_t>(group.hosts()[group.host()].size());
  const char* const begin = static_cast<const char*>(local);
  hosts[group.host()].assign(begin, begin + local_size * size);
  Fingerprint print;
  print.collective = collective;
  const auto mark = std::bit_cast<WireMark>(print);
  std::deque<WireRequest> requests;
  std::vector<std::pair<uint32_t, const WireRequest*>> awaited;  // by the rank that gives
  const auto make = [&](std::vector<char>& data) -> WireRequest& {
    WireRequest& request = requests.emplace_back();
    request.set_memory(data.data(), data.size());
    request.set_mark(mark);
    return request;
  };
  for (uint32_t host = 0; host < hosts.size(); ++host) {
    if (host == group.host()) continue;
    const std::vector<uint32_t>& ranks = group.hosts()[host];
    hosts[host].resize(ranks.size() * size);
    const uint32_t giver = ranks[group.local_rank() % ranks.size()];
    awaited.emplace_back(giver, &make(hosts[host]));
    group.wires().post_receive(group.members()[giver], lane, requests.back());
    // More than one where the other host has more ranks, perhaps none where it has fewer.
    for (size_t i = group.local_rank(); i < ranks.size(); i += local_size) {
      group.wires().post_send(group.members()[ranks[i]], lane, make(hosts[group.host()]));
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
      status = failure(KEEL_INVALID_ARGUMENT, "mismatch: a rank called {}, rank {} {}",
                       describe(std::bit_cast<Fingerprint>(request.mark())), group.rank(),
                       describe(print));
    }
  }
  if (status.ok()) {
    for (uint32_t host = 0; host < hosts.size(); ++host) {
      const char* from = hosts[host].data();
      for (const uint32_t rank : group.hosts()[host]) {
        std::memcpy(static_cast<char*>(out_all) + rank * size, from, size);
        from += size;
      }
    }
    return {};
  }
  group.wires().cancel(status);
  while (!is_over()) {
    if (!group.wires().progress()) group.wires().park(WaitPolicy::kSliceNs);
  }
  return status;
}

}  // namespace keel
