// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/agreement.h"

#include "collectives/operation.h"
#include "core/log.h"

namespace keel {

SelectionKey selection_key_of(Team& team) {
  SelectionKey selection_key = {team.world(), false, team.segment().oversubscribed(),
                                HostCaches::get()};
  for (uint32_t rank = 0; rank < team.world(); ++rank) {
    const bool staged = (team.peer_info(rank).flags & Team::kNoAlias) != 0;
    selection_key.staged = selection_key.staged || staged;
  }
  return selection_key;
}

Status propose_selection(Team& team, const TableSource& table, Selection* out_selection) {
  KEEL_RETURN_IF_ERROR(Selection::make(table.rules, selection_key_of(team), out_selection)
                           .with_prefix(table.name + ": "));
  team.segment().set_selection(*out_selection);
  return {};
}

Status accept_selection(Team& team, uint32_t rank, const TableSource& table,
                        Selection* out_selection) {
  const SelectionKey selection_key = selection_key_of(team);
  // A copy, since another process may change the segment.
  *out_selection = team.segment().selection();
  KEEL_RETURN_IF_ERROR(out_selection->check(selection_key).with_prefix("rank 0: "));
  Selection own;
  const Status made = Selection::make(table.rules, selection_key, &own);
  if (made.ok() && own == *out_selection) return {};
  log(KEEL_LOG_WARNING,
      "{}: its table of algorithms ({}) is not that of rank 0, by which all ranks go",
      team.name(rank), table.name);
  return {};
}

void explain_selection(Team& team, const Selection& selection, const std::string& name,
                       JsonWriter& json) {
  const SelectionKey selection_key = selection_key_of(team);
  json.key("selection_key").begin_object();
  json.key("ranks").number(selection_key.world);
  json.key("reach").text(selection_key.staged ? "staged" : "alias");
  json.key("cores").text(selection_key.oversubscribed ? "oversubscribed" : "dedicated");
  json.end_object();
  json.key("algorithms");
  selection.write(json, /*narrow=*/false);
  json.key("algorithms_of_narrow_sums");
  selection.write(json, /*narrow=*/true);
  json.key("foreign_buffers");
  selection.write_foreign(json);
  json.key("candidates").begin_object();
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective))) continue;
    json.key(collective_name(collective)).begin_array();
    for (uint32_t j = 0; j < kAlgorithms; ++j) {
      const auto algorithm = static_cast<Algorithm>(j);
      if (applies(algorithm, collective, selection_key.world)) json.text(algorithm_name(algorithm));
    }
    json.end_array();
  }
  json.end_object();
  json.key("table").text(name);
  json.key("measured_table").text(measured_table_path());
}

}  // namespace keel
