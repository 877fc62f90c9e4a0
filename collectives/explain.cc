// SPDX-License-Identifier: Apache-2.0
#include "collectives/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "collectives/selection/agreement.h"
#include "core/json_writer.h"

namespace keel {

namespace {

bool any_staged(const Team& team) {
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    if (team.is_staged(rank)) return true;
  }
  return false;
}

std::string explain_ranks(RankContext& context) {
  std::string text;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    const PeerInfo& peer_info = context.team().peer_info(rank);
    text += fmt::format("{}{{\"rank\": {}, \"device\": {}, \"process\": {}, \"reach\": \"{}\"}}",
                        rank == 0 ? "" : ", ", rank, json_string(peer_info.device), peer_info.pid,
                        context.team().is_staged(rank) ? "staged" : "alias");
  }
  return text;
}

std::string explain_island(const std::vector<uint32_t>& ranks, const char* reach) {
  return fmt::format("{{\"ranks\": [{}], \"reach\": \"{}\"}}", fmt::join(ranks, ", "), reach);
}

// Ranks with memory read in place form an island; every staged rank is a separate island.
std::string explain_islands(RankContext& context) {
  std::vector<std::string> islands;
  std::vector<uint32_t> together;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    if (context.team().is_staged(rank)) {
      islands.push_back(explain_island({rank}, "staged"));
    } else {
      together.push_back(rank);
    }
  }
  if (!together.empty()) islands.insert(islands.begin(), explain_island(together, "alias"));
  return fmt::format("{}", fmt::join(islands, ", "));
}

std::string number_or_null(double value) {
  return value > 0 ? fmt::format("{:.4g}", value) : "null";
}

std::string explain_plan(const OperationStatistics& exchange) {
  const ChunkPlan& plan = exchange.plan;
  std::vector<std::string> links;
  std::vector<std::string> weights;
  for (uint32_t rank = 0; rank < exchange.links.size(); ++rank) {
    const HostLink& link = exchange.links[rank];
    links.push_back(link.is_free ? "null"
                                 : fmt::format("{{\"out\": {}, \"in\": {}}}",
                                               number_or_null(link.out), number_or_null(link.in)));
    weights.push_back(fmt::format("{:.4f}", plan.share(rank)));
  }
  return fmt::format(
      ", \"chunks_in_flight\": {}, \"links_gb_per_s\": [{}], \"shares\": [{}], \"bound_ms\": {}, "
      "\"predicted_ms\": {}",
      plan.windows, fmt::join(links, ", "), fmt::join(weights, ", "),
      number_or_null(plan.bound_seconds * 1e3), number_or_null(plan.predicted_seconds * 1e3));
}

const char* reduced_by(const OperationStatistics& exchange) {
  if (!reduces(exchange.collective)) return "null";
  if (exchange.way.is_native) return "\"library\"";
  return exchange.way.is_summed_on_device ? "\"device\"" : "\"host\"";
}

// |lane|: last operation of the rank's lane; NULL if the rank has no lane.
std::string explain_last(const LastOperation& exchange, const LastOperation* lane) {
  OperationStatistics last;
  if (!exchange.read(&last)) return "null";
  const OperationPath& way = last.way;
  const char* const path = way.is_native ? "native" : way.is_staged ? "bridge" : "direct";
  const std::string between = way.is_native && lane != nullptr
                                  ? fmt::format(", \"lane\": {}", explain_last(*lane, nullptr))
                                  : "";
  return fmt::format(
      "{{\"operation\": \"{}\", \"bytes\": {}, \"path\": \"{}\", \"algorithm\": \"{}\", "
      "\"steps\": {}, \"step_bytes\": {}, \"link_bytes\": {{\"out\": {}, \"in\": {}}}, "
      "\"reduced_by\": {}{}{}, \"measured_ms\": {:.4g}}}",
      collective_name(last.collective), last.bytes, path, way.algorithm, way.rounds,
      way.round_bytes, last.link_out_bytes, last.link_in_bytes, reduced_by(last),
      way.is_planned ? explain_plan(last) : "", between, last.seconds * 1e3);
}

}  // namespace

std::string explain_communicator(RankContext& context, int64_t timeout_ns,
                                 const Selection& selection, const std::string& table_name,
                                 const std::string& native, const LastOperation* lane) {
  return fmt::format(
      "{{\"world\": {}, \"priority\": \"{}\", \"path\": \"{}\", \"chunk_bytes\": {}, "
      "\"eager_bytes\": {}, \"waiting\": \"{}\", \"timeout_ns\": {}, {}, \"ranks\": [{}], "
      "\"islands\": [{}], \"native\": {}, \"last\": {}}}",
      context.world(), context.team().is_urgent() ? "urgent" : "normal",
      any_staged(context.team()) ? "bridge" : "direct", context.chunk_bytes(),
      selection.eager_bytes(KEEL_ALL_REDUCE),
      context.segment().oversubscribed() ? "parking" : "spinning", timeout_ns,
      explain_selection(context.team(), selection, table_name), explain_ranks(context),
      explain_islands(context), native, explain_last(context.last_operation, lane));
}

}  // namespace keel
