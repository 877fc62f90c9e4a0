// SPDX-License-Identifier: Apache-2.0
// How much of an operation whose data is staged goes at a time, and who reduces what: numbers
// from numbers, so that all ranks come to the same.
#ifndef KEEL_COLLECTIVES_BRIDGE_EXCHANGE_PLAN_H_
#define KEEL_COLLECTIVES_BRIDGE_EXCHANGE_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

namespace keel {

// A rank's way between its device and the host. Rates in GB/s; 0 is not known yet.
struct Leg {
  double out = 0;  // from the device to the host
  double in = 0;
  bool is_free = false;  // there is none: the host reaches the device's memory

  // Of the slower direction, as far as both are known; 0 is not known.
  double rate() const;
};

// Rates as the rest of the plan takes them: what is no number, not above 0 or beyond any chip
// becomes 0. Whoever writes them may be a stranger.
double sane_rate(double gb_per_s);

struct ExchangeSize {
  uint64_t bytes = 0;        // through each leg and way
  uint32_t element = 1;      // bytes
  uint64_t chunk_bytes = 0;  // the largest window; there is memory for two each way
};

struct ExchangePlan {
  static constexpr uint32_t kMostWindows = 8;
  static constexpr uint32_t kWhole = 1 << 16;

  uint64_t window_bytes = 0;
  uint32_t windows = 2;  // each way in flight
  // What each rank reduces of a window: from where the one before ends, in parts of kWhole.
  std::vector<uint32_t> share_ends;
  // What no exchange of messages between islands can beat, each element reduced once: the larger
  // of bytes / slowest leg and 2 (k - 1) bytes / all legs together. And what this plan
  // should take. Both 0 where a rate is not known.
  double bound_seconds = 0;
  double predicted_seconds = 0;

  double share(uint32_t rank) const;
};

// A part of a window, in elements.
struct ShareRange {
  uint64_t begin;
  uint64_t count;
};

// For as many ranks as there are |legs|. Allocates nothing where |*plan| was made for as many
// before. |host_copies|: the ranks' own threads copy, nothing else moves meanwhile.
void plan_exchange(const ExchangeSize& size, std::span<const Leg> legs, bool host_copies,
                   ExchangePlan* plan);

// The same where the device of rank |summing| reduces all, in |windows| of |size.chunk_bytes|: see
// device_sum.h.
void plan_device_sum(const ExchangeSize& size, std::span<const Leg> legs, uint32_t summing,
                     uint32_t windows, ExchangePlan* plan);

// The shares alone. The island of rank i sends (1 + (k - 2) share_i) times the data, over a leg
// of rate B_i: as equal shares as there are among those with which the slowest of them takes no
// longer than ExchangePlan::bound_seconds. Equal ones where a rate is not known.
void weighted_shares(std::span<const Leg> legs, std::vector<uint32_t>* share_ends);

// |rank|'s of a window of |count| elements: whole cache lines, so that no two ranks write one.
ShareRange share_of(const ExchangePlan& plan, uint32_t rank, uint64_t count, uint32_t element);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_EXCHANGE_PLAN_H_
