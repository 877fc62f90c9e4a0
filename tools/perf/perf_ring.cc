// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace keel::cli {
namespace {

std::optional<double> number_of(const Json& object, const char* member) {
  if (!object.is_object() || !object.contains(member) || !object[member].is_number()) return {};
  return object[member].get<double>();
}

std::string text_of(const Json& object, const char* member) {
  const bool is_text = object.is_object() && object.contains(member) && object[member].is_string();
  return is_text ? object[member].get<std::string>() : std::string();
}

// Returns the ranks of "rank 3" or "ranks 3-7, 12"; of a longer list those that are written out.
std::vector<uint32_t> ranks_in(std::string_view text) {
  std::vector<uint32_t> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  bool is_range = false;
  while (at != end) {
    uint32_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{}) {
      if (text.substr(static_cast<size_t>(at - text.data())).starts_with("and ")) break;
      is_range = *at == '-';
      ++at;
      continue;
    }
    const uint32_t first = is_range && !ranks.empty() ? ranks.back() + 1 : number;
    for (uint32_t rank = first; rank <= number; ++rank) ranks.push_back(rank);
    is_range = false;
    at = next;
  }
  return ranks;
}

PerfRing::Island island_of(std::string name, const std::vector<uint32_t>& ranks,
                           const std::vector<std::string>& devices) {
  PerfRing::Island island;
  island.name = std::move(name);
  for (const uint32_t rank : ranks) {
    island.ranks.push_back({rank, rank < devices.size() ? devices[rank] : std::string()});
  }
  return island;
}

std::vector<PerfRing::Island> islands_of(const Json& explained,
                                         const std::vector<std::string>& devices) {
  std::vector<PerfRing::Island> islands;
  if (explained.contains("hosts")) {
    for (const Json& host : explained["hosts"]) {
      islands.push_back(island_of("host " + text_of(host, "name"), host["ranks"], devices));
    }
    return islands;
  }
  const Json native = explained.value("native", Json::object());
  if (native.contains("islands") && !native["islands"].empty()) {
    for (const Json& each : native["islands"]) {
      islands.push_back(
          island_of(text_of(each, "library"), ranks_in(text_of(each, "ranks")), devices));
    }
    for (const Json& each : native["alone"]) {
      for (const uint32_t rank : ranks_in(text_of(each, "ranks"))) {
        islands.push_back(island_of(text_of(each, "why"), {rank}, devices));
      }
    }
    // Positions in a lane follow the islands' first ranks.
    std::sort(islands.begin(), islands.end(), [](const auto& a, const auto& b) {
      return a.ranks.front().number < b.ranks.front().number;
    });
    return islands;
  }
  for (const Json& each : explained.value("islands", Json::array())) {
    islands.push_back(island_of("reach " + text_of(each, "reach"), each["ranks"], devices));
  }
  return islands;
}

// Fills in the links and shares of |exchange|, which are by rank or, in a lane, by island.
void add_links(const Json& exchange, PerfRing* ring) {
  const Json links = exchange.value("links_gb_per_s", Json::array());
  const Json shares = exchange.value("shares", Json::array());
  const bool by_island = links.size() == ring->islands.size();
  for (size_t i = 0; i < ring->islands.size(); ++i) {
    PerfRing::Island& island = ring->islands[i];
    const size_t place = by_island ? i : island.ranks.front().number;
    if (place < links.size()) {
      island.out_gb_per_s = number_of(links[place], "out");
      island.in_gb_per_s = number_of(links[place], "in");
    }
    double sum = 0;
    bool has_share = false;
    for (const PerfRing::Rank& rank : island.ranks) {
      const size_t at = by_island ? i : rank.number;
      if (at >= shares.size() || !shares[at].is_number()) continue;
      sum += shares[at].get<double>();
      has_share = true;
      if (by_island) break;
    }
    if (has_share) island.share = sum;
  }
}

std::string ways_of(const Json& operation) {
  const std::string path = text_of(operation, "path");
  const std::string algorithm = text_of(operation, "algorithm");
  return path == algorithm ? path : fmt::format("{} by {}", path, algorithm);
}

// The parts of the lanes between hosts, and where the parts come from.
std::string lanes_text(const Json& explained) {
  const auto list = [&](const char* member, double factor, const char* unit) {
    std::string text;
    for (const Json& each : explained.value(member, Json::array())) {
      text +=
          fmt::format("{}{:.3g}{}", text.empty() ? "" : ", ", each.get<double>() * factor, unit);
    }
    return text;
  };
  const std::string shares = list("lane_shares", 100, "%");
  if (shares.empty()) return {};
  const std::string source = text_of(explained, "lane_shares_from");
  if (source != "measured") return fmt::format("lanes {}, {}", shares, source);
  return fmt::format("lanes {}, measured at {} MB/s", shares, list("lane_rates", 1, ""));
}

// The interface of the rank that explains, and why the rank uses it.
std::string interface_text(const Json& explained) {
  const Json interface = explained.value("interface", Json());
  if (!interface.is_object()) return {};
  const std::string name = text_of(interface, "name");
  const std::string address = text_of(interface, "address");
  const std::string distance = text_of(interface, "distance");
  const std::string chosen = text_of(interface, "chosen");
  std::string text = name.empty() ? "this rank over " + address
                                  : fmt::format("this rank over {} ({})", name, address);
  if (chosen == "route") return text + ", by the route to the server";
  if (chosen == "local_rank") return text + ", by local rank among equally near ones";
  text += ", " + chosen;
  return distance.empty() ? text : text + ": " + distance;
}

std::string devices_text(const PerfRing::Island& island) {
  std::string text;
  for (const PerfRing::Rank& rank : island.ranks) {
    text += fmt::format("{}rank {} {}", text.empty() ? "" : ", ", rank.number, rank.device);
  }
  return text;
}

}  // namespace

PerfRing perf_ring(const Json& explained, const std::vector<std::string>& devices) {
  PerfRing ring;
  ring.islands = islands_of(explained, devices);
  ring.between = text_of(explained, explained.contains("wire") ? "wire" : "path");
  std::erase_if(ring.islands, [](const PerfRing::Island& island) { return island.ranks.empty(); });
  const Json last = explained.value("last", Json());
  if (!last.is_object()) return ring;
  const Json lane = last.value("lane", Json());
  const Json& exchange = lane.is_object() ? lane : last;
  ring.operation = text_of(last, "operation");
  if (const auto bytes = number_of(last, "bytes")) {
    ring.operation += fmt::format(" of {:.0f} bytes", *bytes);
  }
  ring.operation += ": " + ways_of(last);
  if (lane.is_object()) ring.operation += ", between islands " + ways_of(lane);
  ring.interface = interface_text(explained);
  if (text_of(last, "path") == "lanes") ring.lanes = lanes_text(explained);
  add_links(exchange, &ring);
  ring.bound_ms = number_of(exchange, "bound_ms");
  ring.predicted_ms = number_of(exchange, "predicted_ms");
  ring.measured_ms = number_of(last, "measured_ms");
  return ring;
}

std::string perf_ring_text(const PerfRing& ring) {
  if (ring.operation.empty()) return {};
  std::string text = fmt::format("# {}\n", ring.operation);
  for (const PerfRing::Island& island : ring.islands) {
    text += fmt::format("#   {}: {}", island.name, devices_text(island));
    if (island.out_gb_per_s) text += fmt::format(", out {:.3g} GB/s", *island.out_gb_per_s);
    if (island.in_gb_per_s) text += fmt::format(", in {:.3g} GB/s", *island.in_gb_per_s);
    if (island.share) text += fmt::format(", share {:.0f}%", *island.share * 100);
    text += '\n';
  }
  if (!ring.interface.empty()) text += fmt::format("#   {}\n", ring.interface);
  if (!ring.lanes.empty()) text += fmt::format("#   {}\n", ring.lanes);
  std::string times;
  const auto add = [&](const char* name, std::optional<double> ms) {
    if (ms) times += fmt::format("{}{} {:.4g} ms", times.empty() ? "" : ", ", name, *ms);
  };
  add("bound", ring.bound_ms);
  add("predicted", ring.predicted_ms);
  add("measured", ring.measured_ms);
  return times.empty() ? text : text + "#   " + times + "\n";
}

}  // namespace keel::cli
