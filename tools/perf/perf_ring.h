// SPDX-License-Identifier: Apache-2.0
// The ring of a communicator, for people: islands, their links, and the time of the last operation.
#ifndef KEEL_TOOLS_PERF_PERF_RING_H_
#define KEEL_TOOLS_PERF_PERF_RING_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"

namespace keel::cli {

// The ring as keel_comm_explain describes it. A value without a figure is not measured yet.
struct PerfRing {
  struct Rank {
    uint32_t number = 0;
    std::string device;  // "cuda:0"
  };
  // Ranks of one native library, of one host, or with memory in each other's reach; or one rank.
  struct Island {
    std::string name;
    std::vector<Rank> ranks;
    std::optional<double> out_gb_per_s;  // of the link that the exchange between islands uses
    std::optional<double> in_gb_per_s;
    std::optional<double> share;  // of the elements that the island reduces, 0 to 1
  };

  std::string operation;  // with bytes and ways, "" before the first operation
  std::string between;    // how data moves between islands: "bridge", "tcp"
  std::vector<Island> islands;
  std::string lanes;  // between hosts, with their parts: "lanes 67%, 33%, measured at ...", or ""
  std::string
      interface;  // of this rank, between hosts: "this rank over ib0 (10.0.0.3), ...", or ""
  std::optional<double> bound_ms;
  std::optional<double> predicted_ms;
  std::optional<double> measured_ms;
};

// |explained| is the text of keel_comm_explain after an operation; |devices|, by rank, names the
// ranks' devices.
PerfRing perf_ring(const Json& explained, const std::vector<std::string>& devices);

// Returns lines that begin with "# ", a line an island.
std::string perf_ring_text(const PerfRing& ring);
// Returns a complete SVG document.
std::string draw_perf_ring(const PerfRing& ring);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_RING_H_
