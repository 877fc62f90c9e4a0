// SPDX-License-Identifier: Apache-2.0
// The parts of the data that each lane between hosts carries.
#ifndef KEEL_COLLECTIVES_HOSTS_LANE_SHARES_H_
#define KEEL_COLLECTIVES_HOSTS_LANE_SHARES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/operation.h"
#include "core/status.h"

namespace keel {

// Weights of the lanes, in the order of the local ranks: lane i carries weight i of the sum of all.
// Empty, or of another number of lanes: equal parts.
using LaneShares = std::vector<uint32_t>;

// More lanes, or a larger weight, would not fit into the text by which rank 0 tells the weights to
// the other ranks.
inline constexpr size_t kMostLaneShares = 32;
inline constexpr uint32_t kMostLaneShare = 1000;

// Reads "2,1,1": weights from 1 to kMostLaneShare. Returns false for malformed text; "-" stands for
// none, which write_lane_shares() writes.
bool read_lane_shares(std::string_view text, LaneShares* out_shares);
std::string write_lane_shares(const LaneShares& shares);

// Divides |count| elements of |element| bytes among |size| lanes, in whole cache lines. |shares| of
// another number of lanes stand for equal parts.
std::vector<Piece> divide_by_lanes(uint64_t count, uint64_t element, uint32_t size,
                                   const LaneShares& shares);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_LANE_SHARES_H_
