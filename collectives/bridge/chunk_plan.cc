// SPDX-License-Identifier: Apache-2.0
#include "collectives/bridge/chunk_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "collectives/shares.h"

namespace keel {

namespace {

constexpr uint64_t kPage = 4096;
// For smaller windows the submission costs more than the copy.
constexpr uint64_t kSmallestWindow = 64 << 10;
// Host threads copy this much; it stays in a second-level cache until the other ranks have read it,
// as two windows each way are 1 MiB.
constexpr uint64_t kHostWindow = 256 << 10;
// Limit of a window that need not be longer, for the same reason.
constexpr uint64_t kCachedWindow = 512 << 10;
// Turnaround from a window's arrival until work on the next window can start: two barriers, two
// submissions and two completion notices, with four ranks on two cores. If the slowest host link
// needs that long for a window, the link never waits for the host.
constexpr double kTurnNs = 400e3;
// The links are filled and drained once: one extra window is under 1% of the data.
constexpr uint64_t kLeastWindows = 128;
// Until the rates are known: enough windows to measure the rates.
constexpr uint64_t kWindowsToMeasure = 16;
constexpr double kFastest = 1e4;

// The existing host links: the slowest, and the sum of all. |all_known|: each link has a rate.
struct LinkSum {
  double slowest = std::numeric_limits<double>::infinity();
  double total = 0;
  uint32_t limited = 0;
  bool all_known = true;
};

LinkSum sum_of(std::span<const HostLink> links) {
  LinkSum sum;
  for (const HostLink& link : links) {
    if (link.is_free) continue;
    const double rate = link.rate();
    ++sum.limited;
    sum.all_known = sum.all_known && rate > 0;
    sum.slowest = std::min(sum.slowest, rate);
    sum.total += rate;
  }
  return sum;
}

// Least time, in nanoseconds, of an exchange of messages of one byte.
double exchange_bound(const LinkSum& sum, size_t world) {
  if (sum.limited == 0 || !sum.all_known) return 0;
  const double alone = 1 / sum.slowest;
  // A rank without a host link has no limit on what it sends.
  if (sum.limited != world) return alone;
  return std::max(alone, 2 * (static_cast<double>(world) - 1) / sum.total);
}

uint64_t window_of(const ChunkPlanInput& size, const LinkSum& sum, bool host_copies) {
  const uint64_t chunk = std::max<uint64_t>(size.chunk_bytes, 1);
  if (host_copies) return std::min(kHostWindow, chunk);
  uint64_t wanted = size.bytes / kWindowsToMeasure;
  if (sum.limited != 0 && sum.all_known) {
    const double turn = std::min(sum.slowest * kTurnNs, static_cast<double>(chunk));
    wanted =
        std::max(static_cast<uint64_t>(turn), std::min(size.bytes / kLeastWindows, kCachedWindow));
  }
  const uint64_t window = std::clamp(wanted, std::min(kSmallestWindow, chunk), chunk);
  return window < kPage ? window : window / kPage * kPage;
}

// Sets the lower bound and the expected time of |plan|. |traffic_of(rank)| returns the bytes of its
// link. |turn_ns|: host time, added once.
template <typename TrafficOf>
void predict(std::span<const HostLink> links, uint64_t bytes, double turn_ns,
             const TrafficOf& traffic_of, ChunkPlan* plan) {
  double bound_ns = 0;
  double slowest = std::numeric_limits<double>::infinity();
  bool all_known = true;
  for (uint32_t rank = 0; rank < links.size(); ++rank) {
    const HostLink& link = links[rank];
    const LinkTraffic traffic = traffic_of(rank);
    if (link.is_free || (traffic.out == 0 && traffic.in == 0)) continue;
    all_known = all_known && link.rate() > 0;
    slowest = std::min(slowest, link.rate());
    const auto add = [&](uint64_t carried, double rate) {
      if (rate > 0) bound_ns = std::max(bound_ns, static_cast<double>(carried) / rate);
    };
    add(traffic.out, sane_rate(link.out));
    add(traffic.in, sane_rate(link.in));
  }
  plan->bound_seconds = all_known ? bound_ns * 1e-9 : 0;
  plan->predicted_seconds = 0;
  if (plan->bound_seconds == 0) return;
  // Both directions run at the same time, one window apart.
  const auto window = static_cast<double>(std::min(bytes, plan->window_bytes));
  plan->predicted_seconds = plan->bound_seconds + (window / slowest + turn_ns) * 1e-9;
}

}  // namespace

double sane_rate(double gb_per_s) {
  return std::isfinite(gb_per_s) && gb_per_s > 1e-6 && gb_per_s < kFastest ? gb_per_s : 0;
}

double HostLink::rate() const {
  const double one = sane_rate(out);
  const double other = sane_rate(in);
  return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
}

double ChunkPlan::share(uint32_t rank) const {
  const uint32_t begin = rank == 0 ? 0 : share_ends[rank - 1];
  return static_cast<double>(share_ends[rank] - begin) / kWhole;
}

void weighted_shares(std::span<const HostLink> links, std::vector<uint32_t>* share_ends) {
  const auto world = static_cast<uint32_t>(links.size());
  share_ends->resize(world);
  const LinkSum sum = sum_of(links);
  const double bound = world > 2 ? exchange_bound(sum, world) : 0;
  // The largest share with which the rank's link keeps to the bound.
  const auto most = [&](uint32_t rank) {
    const HostLink& link = links[rank];
    if (bound == 0 || link.is_free) return 1.0;
    return std::clamp((bound * link.rate() - 1) / (world - 2), 0.0, 1.0);
  };
  // Water filling: every rank whose link allows at least |level| gets |level|, an equal part of
  // what the limited ranks leave. The level only rises, so a limited rank stays limited.
  double level = 1.0 / std::max(world, 1u);
  for (uint32_t turn = 0; turn < world; ++turn) {
    double left = 1;
    uint32_t open = 0;
    for (uint32_t rank = 0; rank < world; ++rank) {
      if (most(rank) < level) {
        left -= most(rank);
      } else {
        ++open;
      }
    }
    if (open == 0) break;
    const double next = left / open;
    if (next <= level) break;
    level = next;
  }
  double total = 0;
  for (uint32_t rank = 0; rank < world; ++rank) total += std::min(most(rank), level);
  double end = 0;
  for (uint32_t rank = 0; rank < world; ++rank) {
    end += std::min(most(rank), level);
    (*share_ends)[rank] = static_cast<uint32_t>(std::lround(end / total * ChunkPlan::kWhole));
  }
  if (world != 0) share_ends->back() = ChunkPlan::kWhole;
}

void plan_chunks(const ChunkPlanInput& size, std::span<const HostLink> links,
                 std::span<const LinkTraffic> traffic, bool host_copies, ChunkPlan* plan) {
  const LinkSum sum = sum_of(links);
  plan->window_bytes = window_of(size, sum, host_copies);
  const uint64_t room = 2 * std::max<uint64_t>(size.chunk_bytes, 1);
  plan->windows = host_copies ? 2
                              : static_cast<uint32_t>(std::clamp<uint64_t>(
                                    room / plan->window_bytes, 2, ChunkPlan::kMostWindows));
  weighted_shares(links, &plan->share_ends);
  predict(
      links, size.bytes, kTurnNs, [&](uint32_t rank) { return traffic[rank]; }, plan);
}

void plan_device_reduction(const ChunkPlanInput& size, std::span<const HostLink> links,
                           uint32_t summing, uint32_t windows, ChunkPlan* plan) {
  plan->window_bytes = size.chunk_bytes;
  plan->windows = windows;
  plan->share_ends.assign(links.size(), ChunkPlan::kWhole);
  std::fill_n(plan->share_ends.begin(), summing, 0u);
  // No window waits for the host.
  predict(
      links, size.bytes, /*turn_ns=*/0,
      [&](uint32_t rank) {
        return rank == summing ? LinkTraffic{size.bytes, size.bytes} : LinkTraffic{};
      },
      plan);
}

ShareRange share_of(const ChunkPlan& plan, uint32_t rank, uint64_t count, uint32_t element) {
  const uint64_t line = line_elements(element);
  const auto end_of = [&](uint32_t other) -> uint64_t {
    const uint64_t end = plan.share_ends[other];
    if (end >= ChunkPlan::kWhole) return count;
    // count * end / kWhole, split because the product may overflow.
    const uint64_t whole =
        count / ChunkPlan::kWhole * end + count % ChunkPlan::kWhole * end / ChunkPlan::kWhole;
    return whole / line * line;
  };
  const uint64_t begin = rank == 0 ? 0 : end_of(rank - 1);
  return {begin, end_of(rank) - begin};
}

}  // namespace keel
