// SPDX-License-Identifier: Apache-2.0
#include "parallel/pipeline/link.h"

#include <utility>

namespace keel::parallel {
inline namespace v0 {

Links Links::make(Communicator& axis, Device device, bool wraps) {
  Links links;
  const uint32_t rank = axis.rank();
  const uint32_t world = axis.world();
  const uint32_t edges = wraps ? world : world - 1;  // edge e is between ranks e and e + 1
  // Edges of one split share no rank: even ones, odd ones, and the last one of an odd circle.
  const auto round_of = [&](uint32_t edge) {
    return edge + 1 == world && world % 2 == 1 ? 2U : edge % 2;
  };
  for (const bool is_output : {true, false}) {
    for (uint32_t round = 0; round < 3; ++round) {
      if (round == 1 && edges < 2) continue;
      if (round == 2 && (!wraps || world % 2 == 0)) continue;
      int32_t color = KEEL_NO_COLOR;
      bool is_lower = false;
      for (const uint32_t edge : {rank, (rank + world - 1) % world}) {
        if (edge >= edges || round_of(edge) != round) continue;
        color = static_cast<int32_t>(edge);
        is_lower = edge == rank;
      }
      Communicator pair = axis.split(color, is_lower ? 0 : 1);
      if (color == KEEL_NO_COLOR) continue;
      const bool sends = is_lower == is_output;
      std::optional<LinkEnd>& end = is_output ? (sends ? links.output_out : links.output_in)
                                              : (sends ? links.gradient_out : links.gradient_in);
      end.emplace(std::move(pair), device, is_lower ? 1 : 0);
    }
  }
  return links;
}

void Links::drain() {
  for (std::optional<LinkEnd>* end : {&output_out, &output_in, &gradient_out, &gradient_in}) {
    if (end->has_value()) {
      (void)keel_stream_synchronize((*end)->stream.get(), KEEL_TIMEOUT_DEFAULT);
    }
  }
}

void Links::abort() {
  for (std::optional<LinkEnd>* end : {&output_out, &output_in, &gradient_out, &gradient_in}) {
    if (end->has_value()) (void)keel_comm_abort((*end)->comm.get());
  }
}

}  // namespace v0
}  // namespace keel::parallel
