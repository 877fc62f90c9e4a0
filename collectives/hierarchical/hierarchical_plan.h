// SPDX-License-Identifier: Apache-2.0
// Decides which ranks of a communicator use a native library together, and for which operations.
#ifndef KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_PLAN_H_
#define KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/hierarchical/native_offer.h"
#include "collectives/operation.h"
#include "core/json_writer.h"

namespace keel {

// One rank, as known to all ranks.
struct NativeRank {
  NativeOffer::Why why = NativeOffer::Why::kNoLibrary;
  NativeOffer offer;  // valid if |why| is kOffered
  ProcessToken process;
  std::string device;
};

// An island is a set of ranks whose devices belong to one backend and have the same native library,
// and whose library connects each rank with each other rank. If several ranks share a device, only
// the first one takes part: libraries refuse the second, and two islands on one device could wait
// for each other. Every rank is in exactly one island; most ranks are alone in theirs. The plan
// depends on |ranks| only, so that all ranks with the same information compute the same plan.
// Immutable.
//
// Path of an operation:
//   one island of all ranks   the library, if it supports the operation; collectives that only move
//                             pieces fall back to the library's send and receive
//   several                   all_reduce and broadcast: the library within each island and Keel's
//                             own algorithms between islands, on as many lanes as the smallest
//                             island has ranks: the first ranks of all islands exchange the first
//                             share of the data, the second ranks the second share, and so on
//   several of one size       also all_gather and reduce_scatter, whose pieces are the shares
//   else                      Keel's own algorithms among all ranks
class HierarchicalPlan {
 public:
  explicit HierarchicalPlan(std::vector<NativeRank> ranks);

  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }
  // The constructor's argument.
  const std::vector<NativeRank>& ranks() const { return ranks_; }
  // Hierarchical in the order of their first ranks; each lists its ranks in ascending order.
  const std::vector<std::vector<uint32_t>>& islands() const { return islands_; }
  uint32_t island_of(uint32_t rank) const { return places_[rank].island; }
  uint32_t index_of(uint32_t rank) const { return places_[rank].index; }
  const std::vector<uint32_t>& island(uint32_t rank) const { return islands_[island_of(rank)]; }
  // Whether any island has more than one rank.
  bool any() const { return any_; }
  bool is_one() const { return any_ && islands_.size() == 1; }
  uint32_t lanes() const { return lanes_; }
  // Whether every rank is in a lane.
  bool is_even() const { return lanes_ * islands_.size() == ranks_.size(); }

  // Whether the libraries of all islands of more than one rank support the call.
  bool can(keel_collective collective, keel_dtype dtype, keel_reduction reduction) const {
    return any_ && common_.has(collective, dtype, reduction);
  }
  // Whether |request| runs as the library's sends and receives among the ranks of the only island.
  bool by_messages(const Request& request) const;
  // Whether |request|, which all ranks have called, uses the library. |is_small|: Keel's own path
  // would carry the data inline in the operation descriptors.
  bool takes(const Request& request, bool is_small) const;

  // Writes a JSON object with the islands, and for every other rank the reason why the rank is
  // alone.
  void explain(JsonWriter& json) const;

 private:
  struct GroupIndex {
    uint32_t island = 0;
    uint32_t index = 0;
  };
  bool can_whole(const Request& request) const;
  bool reduces_in_parts(const Request& request) const;
  std::string why_alone(uint32_t rank) const;

  const std::vector<NativeRank> ranks_;
  const std::vector<bool> is_first_on_device_;  // among ranks that offer a library
  std::vector<std::vector<uint32_t>> islands_;
  std::vector<GroupIndex> places_;
  NativeCapability common_;
  uint32_t lanes_ = 1;
  bool any_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HIERARCHICAL_HIERARCHICAL_PLAN_H_
