// SPDX-License-Identifier: Apache-2.0
#include "collectives/hierarchical/hierarchical_plan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "collectives/bootstrap/rank_list.h"
#include "collectives/selection/algorithm.h"

namespace keel {

namespace {

std::string_view library_of(const NativeOffer& offer) {
  return {offer.library.data(), strnlen(offer.library.data(), offer.library.size())};
}

// "sim#2" of "sim#2:0": two instances of a plugin may have different libraries of the same name.
std::string_view backend_of(const NativeRank& rank) {
  return std::string_view(rank.device).substr(0, rank.device.find(':'));
}

// Ranks with equal keys share an island. A rank whose reach is invalid has no key.
using Key = std::tuple<std::string_view, std::string_view, keel_ccl_reach, ProcessToken>;

bool find_key(const NativeRank& rank, Key* out_key) {
  const keel_ccl_reach reach = rank.offer.reach;
  if (reach < KEEL_CCL_PROCESS || reach > KEEL_CCL_NETWORK) return false;
  // All ranks of a communicator run on one host.
  *out_key = {backend_of(rank), library_of(rank.offer), reach,
              reach == KEEL_CCL_PROCESS ? rank.process : ProcessToken()};
  return true;
}

// Marks each rank that offers a library and whose device no earlier offering rank uses.
std::vector<bool> find_first_on_devices(const std::vector<NativeRank>& ranks) {
  std::set<std::pair<ProcessToken, std::string_view>> names;
  std::set<std::array<uint8_t, 16>> uuids;
  std::vector<bool> first(ranks.size(), false);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const NativeRank& each = ranks[rank];
    if (each.why != NativeOffer::Why::kOffered) continue;
    const bool has_uuid = each.offer.uuid != decltype(each.offer.uuid){};
    const bool is_new_name = names.emplace(each.process, each.device).second;
    const bool is_new_chip = !has_uuid || uuids.insert(each.offer.uuid).second;
    first[rank] = is_new_name && is_new_chip;
  }
  return first;
}

}  // namespace

HierarchicalPlan::HierarchicalPlan(std::vector<NativeRank> ranks)
    : ranks_(std::move(ranks)),
      is_first_on_device_(find_first_on_devices(ranks_)),
      places_(ranks_.size()) {
  std::map<Key, uint32_t> known;
  for (uint32_t rank = 0; rank < world(); ++rank) {
    auto number = static_cast<uint32_t>(islands_.size());
    Key key;
    if (is_first_on_device_[rank] && find_key(ranks_[rank], &key)) {
      number = known.emplace(key, number).first->second;
    }
    if (number == islands_.size()) islands_.emplace_back();
    islands_[number].push_back(rank);
    places_[rank] = {number, static_cast<uint32_t>(islands_[number].size() - 1)};
  }
  size_t smallest = islands_.empty() ? 1 : islands_[0].size();
  for (const std::vector<uint32_t>& island : islands_) {
    smallest = std::min(smallest, island.size());
    if (island.size() == 1) continue;
    for (const uint32_t rank : island) {
      if (!any_) common_ = ranks_[rank].offer.capability;
      common_.keep_common(ranks_[rank].offer.capability);
      any_ = true;
    }
  }
  lanes_ = static_cast<uint32_t>(smallest);
}

// KEEL_AVG and KEEL_PREMUL_SUM scale across all ranks at once, so partial reductions exclude them.
bool HierarchicalPlan::reduces_in_parts(const Request& request) const {
  return request.reduction < KEEL_AVG && !loses_by_parts(request.dtype, request.reduction) &&
         can(KEEL_REDUCE, request.dtype, request.reduction);
}

bool HierarchicalPlan::by_messages(const Request& request) const {
  constexpr uint64_t kPieces = 1u << KEEL_ALL_TO_ALL | 1u << KEEL_ALL_TO_ALL_V |
                               1u << KEEL_ALL_GATHER_V | 1u << KEEL_GATHER | 1u << KEEL_GATHER_V |
                               1u << KEEL_SCATTER | 1u << KEEL_SCATTER_V;
  return is_one() && (kPieces >> request.collective & 1) != 0 &&
         can(KEEL_SEND, request.dtype, KEEL_SUM) && can(KEEL_RECV, request.dtype, KEEL_SUM) &&
         !can_whole(request);
}

// Excludes collectives with arrays, which a single library call cannot express.
bool HierarchicalPlan::can_whole(const Request& request) const {
  return !has_arrays(request.collective) &&
         can(request.collective, request.dtype, request.reduction);
}

bool HierarchicalPlan::takes(const Request& request, bool is_small) const {
  // With arrays, a rank may know only its own counts.
  if (!any_ || (request.count == 0 && !has_arrays(request.collective))) return false;
  if (is_one()) return can_whole(request) || by_messages(request);
  if (is_small) return false;
  const bool can_broadcast = can(KEEL_BROADCAST, request.dtype, KEEL_SUM);
  switch (request.collective) {
    case KEEL_BROADCAST:
      return can_broadcast;
    case KEEL_ALL_REDUCE:
      return can_broadcast && reduces_in_parts(request);
    case KEEL_ALL_GATHER:
      return can_broadcast && is_even();
    case KEEL_REDUCE_SCATTER:
      return is_even() && reduces_in_parts(request);
    default:
      return false;
  }
}

std::string HierarchicalPlan::why_alone(uint32_t rank) const {
  const NativeRank& self = ranks_[rank];
  switch (self.why) {
    case NativeOffer::Why::kNoLibrary:
      return "no native library";
    case NativeOffer::Why::kForbidden:
      return "forbidden";
    case NativeOffer::Why::kOneQueue:
      return "its device has one hardware queue";
    case NativeOffer::Why::kOffered:
      break;
  }
  bool has_peer = false;
  for (uint32_t other = 0; other < world(); ++other) {
    if (other == rank || !is_first_on_device_[other]) continue;
    has_peer = has_peer || (backend_of(self) == backend_of(ranks_[other]) &&
                            library_of(self.offer) == library_of(ranks_[other].offer));
  }
  if (!is_first_on_device_[rank]) return "its device is another rank's already";
  return has_peer ? "its library does not reach the others" : "no other rank has its library";
}

void HierarchicalPlan::explain(JsonWriter& json) const {
  json.begin_object();
  json.key("islands").begin_array();
  std::map<std::string, std::vector<uint32_t>> alone;
  for (const std::vector<uint32_t>& island : islands_) {
    if (island.size() == 1) {
      alone[why_alone(island[0])].push_back(island[0]);
      continue;
    }
    json.begin_object();
    json.key("ranks").text(rank_list(island));
    json.key("library").text(library_of(ranks_[island[0]].offer));
    json.end_object();
  }
  json.end_array();
  json.key("alone").begin_array();
  for (const auto& [why, ranks] : alone) {
    json.begin_object();
    json.key("ranks").text(rank_list(ranks));
    json.key("why").text(why);
    json.end_object();
  }
  json.end_array();
  json.key("lanes").number(any_ && islands_.size() > 1 ? lanes_ : 0);
  json.end_object();
}

}  // namespace keel
