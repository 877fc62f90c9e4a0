// SPDX-License-Identifier: Apache-2.0
// Chooses the window sizes of a staged operation and the part of a window that each rank reduces.
// Every function is a pure function of its numbers, so that all ranks compute the same plan.
#ifndef KEEL_COLLECTIVES_BRIDGE_CHUNK_PLAN_H_
#define KEEL_COLLECTIVES_BRIDGE_CHUNK_PLAN_H_

#include <cstdint>
#include <span>
#include <vector>

namespace keel {

// The host link of a rank: the path between its device and the host. Rates in GB/s; 0 means
// unknown.
struct HostLink {
  double out = 0;  // device to host
  double in = 0;
  bool is_free = false;  // no link: the host reaches the device's memory

  // Rate of the slower direction, or of the only known direction; 0 when both are unknown.
  double rate() const;
};

// Bytes that a rank's host link must carry if the rank's buffers are the device's memory. Both
// directions run at the same time.
struct LinkTraffic {
  uint64_t out = 0;
  uint64_t in = 0;
};

// Returns |gb_per_s|, or 0 if the rate is not finite, not above 1e-6 or not below 1e4 GB/s. Rates
// are read from shared memory that another process may have corrupted.
double sane_rate(double gb_per_s);

struct ChunkPlanInput {
  uint64_t bytes = 0;        // the most through one host link, one way
  uint32_t element = 1;      // bytes
  uint64_t chunk_bytes = 0;  // the largest window; two per direction are allocated
};

struct ChunkPlan {
  static constexpr uint32_t kMostWindows = 8;
  static constexpr uint32_t kWhole = 1 << 16;

  uint64_t window_bytes = 0;
  uint32_t windows = 2;  // in flight, each way
  // End of each rank's share of a window, in parts of kWhole; a share begins where the previous
  // rank's ends.
  std::vector<uint32_t> share_ends;
  // bound_seconds: lower bound of the plan, namely the longest time of a link in one direction. The
  // host, or one device, reduces between the links, so no value crosses a link twice and the number
  // of ranks does not matter. predicted_seconds: expected time of the plan. Both are 0 if the rate
  // of a link with traffic is unknown.
  double bound_seconds = 0;
  double predicted_seconds = 0;

  double share(uint32_t rank) const;
};

// A part of a window, in elements.
struct ShareRange {
  uint64_t begin;
  uint64_t count;
};

// Plans for links.size() ranks, each with an element in |traffic|. Allocates nothing if |*plan| was
// made for the same number of ranks before. |host_copies|: the ranks' own threads copy, so no copy
// overlaps with other work.
void plan_chunks(const ChunkPlanInput& size, std::span<const HostLink> links,
                 std::span<const LinkTraffic> traffic, bool host_copies, ChunkPlan* plan);

// Plans the case in which the device of rank |summing| reduces everything, in |windows| windows of
// |size.chunk_bytes|: see device_reduction.h. Its link carries |size.bytes| each way, namely the
// other rank's values and the result.
void plan_device_reduction(const ChunkPlanInput& size, std::span<const HostLink> links,
                           uint32_t summing, uint32_t windows, ChunkPlan* plan);

// Computes the shares alone. In an exchange of messages, rank i sends (1 + (k - 2) share_i) times
// the data over a link of rate B_i. The shares are as equal as possible among those with which the
// slowest rank takes no longer than the least time of such an exchange, the larger of
// bytes / slowest link and 2 (k - 1) bytes / sum of all links; equal if a rate is unknown.
void weighted_shares(std::span<const HostLink> links, std::vector<uint32_t>* share_ends);

// The share of |rank| in a window of |count| elements. Shares begin at whole cache lines, so that
// no two ranks write the same line.
ShareRange share_of(const ChunkPlan& plan, uint32_t rank, uint64_t count, uint32_t element);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_CHUNK_PLAN_H_
