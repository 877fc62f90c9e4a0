// SPDX-License-Identifier: Apache-2.0
#include "collectives/explain.h"

#include <vector>

#include "collectives/selection/agreement.h"

namespace keel {

namespace {

bool any_staged(const Team& team) {
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    if (team.is_staged(rank)) return true;
  }
  return false;
}

void explain_ranks(RankContext& context, JsonWriter& json) {
  json.begin_array();
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    const PeerInfo& peer_info = context.team().peer_info(rank);
    json.begin_object();
    json.key("rank").number(rank);
    json.key("device").text(peer_info.device);
    json.key("process").number(peer_info.pid);
    json.key("reach").text(context.team().is_staged(rank) ? "staged" : "alias");
    json.end_object();
  }
  json.end_array();
}

void explain_island(const std::vector<uint32_t>& ranks, const char* reach, JsonWriter& json) {
  json.begin_object();
  json.key("ranks").begin_array();
  for (const uint32_t rank : ranks) json.number(rank);
  json.end_array();
  json.key("reach").text(reach);
  json.end_object();
}

// Ranks with memory read in place form an island; every staged rank is a separate island.
void explain_islands(RankContext& context, JsonWriter& json) {
  std::vector<uint32_t> together;
  std::vector<uint32_t> staged;
  for (uint32_t rank = 0; rank < context.world(); ++rank) {
    (context.team().is_staged(rank) ? staged : together).push_back(rank);
  }
  json.begin_array();
  if (!together.empty()) explain_island(together, "alias", json);
  for (const uint32_t rank : staged) explain_island({rank}, "staged", json);
  json.end_array();
}

// Four digits; null for an unknown value.
void write_known(JsonWriter& json, double value) {
  value > 0 ? json.rounded(value, 4) : json.null();
}

void explain_plan(const OperationStatistics& exchange, JsonWriter& json) {
  const ChunkPlan& plan = exchange.plan;
  json.key("chunks_in_flight").number(plan.windows);
  json.key("links_gb_per_s").begin_array();
  for (const HostLink& link : exchange.links) {
    if (link.is_free) {
      json.null();
      continue;
    }
    json.begin_object();
    write_known(json.key("out"), link.out);
    write_known(json.key("in"), link.in);
    json.end_object();
  }
  json.end_array();
  json.key("shares").begin_array();
  for (uint32_t rank = 0; rank < exchange.links.size(); ++rank) {
    json.rounded(plan.share(rank), 4);
  }
  json.end_array();
  write_known(json.key("bound_ms"), plan.bound_seconds * 1e3);
  write_known(json.key("predicted_ms"), plan.predicted_seconds * 1e3);
}

// NULL: nothing was reduced.
const char* reduced_by(const OperationStatistics& exchange) {
  if (!reduces(exchange.collective)) return nullptr;
  if (exchange.way.is_native) return "library";
  return exchange.way.is_summed_on_device ? "device" : "host";
}

// |lane|: last operation of the rank's lane; NULL if the rank has no lane.
void explain_last(const LastOperation& exchange, const LastOperation* lane, JsonWriter& json) {
  OperationStatistics last;
  if (!exchange.read(&last)) return json.null();
  const OperationPath& way = last.way;
  json.begin_object();
  json.key("operation").text(collective_name(last.collective));
  json.key("bytes").number(last.bytes);
  json.key("path").text(way.is_native ? "native" : way.is_staged ? "bridge" : "direct");
  json.key("algorithm").text(way.algorithm);
  json.key("steps").number(way.rounds);
  json.key("step_bytes").number(way.round_bytes);
  json.key("link_bytes").begin_object();
  json.key("out").number(last.link_out_bytes);
  json.key("in").number(last.link_in_bytes);
  json.end_object();
  json.key("reduced_by").text_or_null(reduced_by(last));
  if (way.is_planned) explain_plan(last, json);
  if (way.is_native && lane != nullptr) {
    json.key("lane");
    explain_last(*lane, nullptr, json);
  }
  json.key("measured_ms").rounded(last.seconds * 1e3, 4);
  json.end_object();
}

}  // namespace

void explain_communicator(RankContext& context, int64_t timeout_ns, const Selection& selection,
                          const std::string& table_name, const HierarchicalPlan& native,
                          const LastOperation* lane, JsonWriter& json) {
  json.begin_object();
  json.key("world").number(context.world());
  json.key("priority").text(context.team().is_urgent() ? "urgent" : "normal");
  json.key("path").text(any_staged(context.team()) ? "bridge" : "direct");
  json.key("chunk_bytes").number(context.chunk_bytes());
  json.key("eager_bytes").number(selection.eager_bytes(KEEL_ALL_REDUCE));
  json.key("waiting").text(context.segment().oversubscribed() ? "parking" : "spinning");
  json.key("timeout_ns").number(timeout_ns);
  explain_selection(context.team(), selection, table_name, json);
  json.key("ranks");
  explain_ranks(context, json);
  json.key("islands");
  explain_islands(context, json);
  json.key("native");
  native.explain(json);
  json.key("last");
  explain_last(context.last_operation, lane, json);
  json.end_object();
}

}  // namespace keel
