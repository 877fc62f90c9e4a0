// SPDX-License-Identifier: Apache-2.0
// Which ranks of a communicator use a native library together.
#ifndef KEEL_COLLECTIVES_ISLANDS_ISLAND_PLAN_H_
#define KEEL_COLLECTIVES_ISLANDS_ISLAND_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "collectives/islands/native_offer.h"
#include "collectives/operation.h"

namespace keel {

// One rank, as all ranks know it.
struct NativeRank {
  NativeOffer::Why why = NativeOffer::Why::kNoLibrary;
  NativeOffer offer;  // with kOffered
  ProcessToken process;
  std::string device;
};

// An island is a set of ranks whose devices are of one backend and have the same native library,
// which reaches from each to each. Of the ranks on one device only the first takes part: libraries
// refuse the second, and two islands on one device could wait for each other. Every rank is in
// one; that of most is themselves alone. Follows from |ranks| and nothing else, so that all ranks
// that know the same of each other have the same plan. Immutable.
//
// How an operation goes:
//   one island of all ranks   the library does it, where it can; what moves pieces only, it does
//                             by messages where it has no more than those
//   several                   all_reduce and broadcast: the library within each island, and
//                             Keel's own algorithms among the islands, on as many lanes as the
//                             smallest island has ranks: the first of each island exchange the
//                             first share of the data, the second ones the second
//   several of one size       the same for all_gather and reduce_scatter, whose pieces are the
//                             shares
//   else                      Keel's own algorithms among all ranks
class IslandPlan {
 public:
  explicit IslandPlan(std::vector<NativeRank> ranks);

  uint32_t world() const { return static_cast<uint32_t>(ranks_.size()); }
  // As it was made from.
  const std::vector<NativeRank>& ranks() const { return ranks_; }
  // In the order of their first ranks; each in the order of the ranks.
  const std::vector<std::vector<uint32_t>>& islands() const { return islands_; }
  uint32_t island_of(uint32_t rank) const { return places_[rank].island; }
  uint32_t index_of(uint32_t rank) const { return places_[rank].index; }
  const std::vector<uint32_t>& island(uint32_t rank) const { return islands_[island_of(rank)]; }
  // Whether the library has anything to do.
  bool any() const { return any_; }
  bool is_one() const { return any_ && islands_.size() == 1; }
  uint32_t lanes() const { return lanes_; }
  // Whether every rank is in a lane.
  bool is_even() const { return lanes_ * islands_.size() == ranks_.size(); }

  // Whether the libraries of all islands of more than one rank can.
  bool can(keel_collective collective, keel_dtype dtype, keel_reduction reduction) const {
    return any_ && common_.has(collective, dtype, reduction);
  }
  // Whether the library has |request| done by messages among the ranks of the one island.
  bool by_messages(const Request& request) const;
  // Whether |request|, which all ranks have called, goes the native way. |is_small|: its data
  // travels with the posts of Keel's own way.
  bool takes(const Request& request, bool is_small) const;

  // Who is with whom and why the others are alone, as a JSON object.
  std::string explain() const;

 private:
  struct Place {
    uint32_t island = 0;
    uint32_t index = 0;
  };
  bool can_whole(const Request& request) const;
  bool reduces_in_parts(const Request& request) const;
  std::string why_alone(uint32_t rank) const;

  const std::vector<NativeRank> ranks_;
  const std::vector<bool> is_first_on_device_;  // of those that offer a library
  std::vector<std::vector<uint32_t>> islands_;
  std::vector<Place> places_;
  NativeCapability common_;
  uint32_t lanes_ = 1;
  bool any_ = false;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_ISLANDS_ISLAND_PLAN_H_
