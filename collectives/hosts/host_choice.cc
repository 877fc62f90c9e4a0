// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_choice.h"

#include <bit>

namespace keel {

namespace {

// Bytes that a rank sends. Below, an all_to_all spends most of its time on messages, of which
// aggregation sends fewer; above, on copies, of which it makes more. Two hosts of 4 ranks each on 2
// cores, over the loopback interface, ms aggregated and direct: 4 KiB 0.6 and 1.6, 64 KiB 0.9 and
// 1.2, 256 KiB 1.0 and 2.2, 1 MiB 12 and 5.
constexpr uint64_t kMostAggregatedBytes = 256 << 10;

// Whether to aggregate |collective|, of |bytes| a rank among |world| ranks. The slots of an
// all_to_all_v (CarriedBlocks) cost one more operation inside each host, which the messages of few
// ranks do not. On 2 cores that other work kept busy, us aggregated and direct, by hosts times
// ranks:
//
//                4 KiB        64 KiB       256 KiB      1 MiB, nothing carried
//   2 hosts x 2   97 and 122  205 and 118  189 and 168   513 and  349
//   2 hosts x 4  137 and 377  242 and 410  392 and 649  1453 and 1270
//   4 hosts x 2  309 and 565  516 and 605  644 and 738  1953 and 1621
bool aggregates(keel_collective collective, uint64_t bytes, uint32_t world) {
  constexpr uint32_t kMostDirectRanks = 4;
  if (collective == KEEL_ALL_TO_ALL_V && world <= kMostDirectRanks) return false;
  return bytes <= kMostAggregatedBytes;
}

struct FewMessages {
  Algorithm algorithm = Algorithm::kDirect;
  uint64_t most_bytes = 0;   // bytes that a rank sends
  uint32_t least_ranks = 3;  // two ranks send one message each by any algorithm
};

// The algorithm by which each of k ranks sends log2(k) messages where `direct` sends k - 1. It
// waits as often or once more, but ranks that share processors wait for each other's processor time
// at each message. One rank a host on 2 cores, hosts linked by veth, us direct and by fewer
// messages, by bytes of the whole buffer:
//
//                            1 KiB        16 KiB       64 KiB       256 KiB
//   all_reduce, 4 hosts       38 and  31   64 and  55  120 and 100   304 and  473
//   all_reduce, 8 hosts      433 and 111  777 and 169  765 and 468  1021 and 1304
//   all_gather, 4 hosts       40 and  27   50 and  37   65 and  52   138 and  137
//   all_gather, 8 hosts      434 and 103  480 and 128  482 and 163   480 and  510
//   reduce_scatter, 4 hosts   39 and  33   47 and  41   64 and  61   165 and  177
//   reduce_scatter, 8 hosts  380 and 116  396 and 140  357 and 193   568 and  604
//   all_to_all, 4 hosts       36 and  36   44 and  44   62 and  65   150 and  207
//   all_to_all, 8 hosts      436 and 130  499 and 153  432 and 314   542 and  786
//
// Where k is no power of two, some data goes twice: a reduce_scatter among 6 hosts takes 105 and 87
// us at 16 KiB, 137 and 192 at 64 KiB. All_to_all among 3 hosts is no faster.
FewMessages few_messages(keel_collective collective) {
  switch (collective) {
    case KEEL_ALL_REDUCE:
      return {Algorithm::kDoubling, 64 << 10};
    case KEEL_ALL_GATHER:
      return {Algorithm::kDoubling, 16 << 10};
    case KEEL_REDUCE_SCATTER:
      return {Algorithm::kHalving, 64 << 10};
    case KEEL_ALL_TO_ALL:
      return {Algorithm::kBruck, 64 << 10, /*least_ranks=*/4};
    default:
      return {};
  }
}

}  // namespace

Algorithm choose_between_hosts(const Request& request, uint64_t bytes, const HostSetting& setting,
                               const std::function<bool(Algorithm)>& is_possible) {
  if (aggregates(request.collective, bytes, setting.world) && is_possible(Algorithm::kAggregated)) {
    return Algorithm::kAggregated;
  }
  if (setting.shares_processors) {
    const FewMessages few = few_messages(request.collective);
    const uint64_t most =
        std::has_single_bit(setting.between) ? few.most_bytes : few.most_bytes / 4;
    const bool is_faster = bytes <= most && setting.between >= few.least_ranks;
    if (is_faster && is_possible(few.algorithm)) return few.algorithm;
  }
  // Up to so many ranks, each sends to all others in one or two steps; with more, the messages of
  // all pairs cost more than the steps saved.
  constexpr uint32_t kMostDirect = 8;
  if (setting.between <= kMostDirect) return Algorithm::kDirect;
  constexpr uint64_t kLeastRing = 64 << 10;
  const bool is_large = request.count * request.element() >= kLeastRing;
  for (const Algorithm algorithm :
       {is_large ? Algorithm::kRing : Algorithm::kDoubling, Algorithm::kBinomial}) {
    if (is_possible(algorithm)) return algorithm;
  }
  return Algorithm::kDirect;
}

}  // namespace keel
