// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_exchange.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>

#include "collectives/hosts/host_messages.h"
#include "collectives/operation.h"

namespace keel {

Status exchange_between_hosts(HostGroup& group, const void* own, void* out_all, uint64_t bytes,
                              WireWait& wait) {
  Fingerprint print;
  print.collective = kSplitCollective;
  print.count = bytes;
  const auto mark = std::bit_cast<WireMark>(print);
  std::deque<WireRequest> requests;
  const auto post = [&](uint32_t peer, void* memory, bool is_send) {
    WireRequest& request = requests.emplace_back();
    request.set_memory(memory, bytes);
    request.set_mark(mark);
    const uint32_t member = group.members()[peer];
    if (is_send) {
      group.wires().post_send(member, HostMessages::kLane, request);
    } else {
      group.wires().post_receive(member, HostMessages::kLane, request);
    }
  };
  for (uint32_t peer = 0; peer < group.world(); ++peer) {
    char* const place = static_cast<char*>(out_all) + peer * bytes;
    if (peer == group.rank()) {
      std::memcpy(place, own, bytes);
      continue;
    }
    post(peer, place, /*is_send=*/false);
    post(peer, const_cast<void*>(own), /*is_send=*/true);
  }
  const auto is_over = [&] {
    return std::all_of(requests.begin(), requests.end(),
                       [](const WireRequest& request) { return request.is_done(); });
  };
  Status status = wait.until(is_over);
  for (const WireRequest& request : requests) {
    if (!status.ok() || !request.is_done()) break;
    status = request.status();
    if (status.ok() && request.mark() != mark) {
      status = failure(KEEL_INVALID_ARGUMENT, "mismatch: a rank called {}, rank {} split()",
                       describe(std::bit_cast<Fingerprint>(request.mark())), group.rank());
    }
  }
  if (status.ok()) return {};
  group.wires().cancel(status);
  while (!is_over()) {
    if (!group.wires().progress()) group.wires().park(WaitContext::kSliceNs);
  }
  return status;
}

}  // namespace keel
