// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/selection.h"

#include <type_traits>

#include "collectives/operation.h"
#include "collectives/transports/operation_board.h"
#include "core/json_writer.h"

namespace keel {

static_assert(std::is_trivially_copyable_v<Selection>);
static_assert(kMostEagerBytes == OperationBoard::kEagerBytes);

namespace {

// Limit of the bytes that a rank sends inline. Inlining data in the operation descriptor saves one
// or two synchronisations. With dedicated cores the saving is 0.2 us. Oversubscribed, the saving is
// a context switch for each rank that shares the core: 4 and 8 ranks on two cores (Granite Rapids)
// break even at these limits, and the wrong choice takes twice as long at 64 KiB (4 ranks, inline
// and direct: broadcast 13.0 us and 5.5, reduce 9.4 and 14.8).
uint64_t built_in_eager_bytes(keel_collective collective, const SelectionKey& selection_key) {
  constexpr uint64_t kDedicated = 4 << 10;
  if (collective == KEEL_BARRIER) return UINT64_MAX;
  if (selection_key.staged) return kStagedEagerBytes;
  if (!selection_key.oversubscribed) return kDedicated;
  switch (collective) {
    case KEEL_REDUCE:  // one rank reads all descriptors, the rest are done
      return std::clamp<uint64_t>((512 << 10) / selection_key.world, 256, kMostEagerBytes);
    case KEEL_SCATTER:  // each rank reads a part
      return 32 << 10;
    case KEEL_ALL_GATHER:  // each rank reads the same amount from every rank
      return 4 << 10;
    case KEEL_ALL_REDUCE:  // every rank reads all data
      return std::clamp<uint64_t>((128 << 10) / selection_key.world, 256, 16 << 10);
    default:
      return 16 << 10;
  }
}

// one_shot reads world times the data and saves a synchronisation. one_shot wins while all of the
// data leaves half of a core's second-level cache free. 64 KiB on two cores with 2 MiB each: 4
// ranks take 15 us instead of 22, 8 ranks 35 instead of 63; beyond the cache, twice as long.
uint64_t one_shot_bytes(const SelectionKey& selection_key) {
  constexpr uint64_t kLeastReads = 128 << 10;
  const uint64_t world = selection_key.world;
  return std::max(kLeastReads / world, selection_key.caches.own / 2 / (world + 1));
}

Algorithm built_in(keel_collective collective, const SelectionKey& selection_key, uint64_t bytes) {
  if (!applies(Algorithm::kEager, collective, selection_key.world)) return Algorithm::kDirect;
  if (bytes <= built_in_eager_bytes(collective, selection_key)) return Algorithm::kEager;
  if (collective == KEEL_ALL_REDUCE && bytes <= one_shot_bytes(selection_key)) {
    return Algorithm::kOneShot;
  }
  return Algorithm::kDirect;
}

// Rounds are small enough that the last-level cache, shared with other work, still holds the sums
// when the ranks gather them, and large enough to hide a barrier, which costs an oversubscribed
// host one or two time slices. Sums too large for the cache cost least as streaming stores, which
// do not read the lines that they overwrite. Two ranks on two cores of a Granite Rapids with 480
// MiB: 16 MiB 1.59 ms in one round, 1.72 in rounds of 2 MiB, 1.96 streamed; 64 MiB 8.0, 8.5 and
// 6.7.
ReduceScatterChunks reduce_scatter_chunks_of(const SelectionKey& selection_key) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr uint64_t kLeastStreamed = 8 * kMiB;
  const uint64_t least_round = selection_key.oversubscribed ? 8 * kMiB : 2 * kMiB;
  const uint64_t world = selection_key.world;
  const uint64_t last = selection_key.caches.last;
  // Whole MiB, so that every round begins at a cache line if the data does.
  return {std::max(least_round, last / 4 / (world + 1) / kMiB * kMiB),
          std::max(kLeastStreamed, last / 3 / (2 * world))};
}

uint64_t most_eager_bytes(keel_collective collective, const SelectionKey& selection_key) {
  if (collective == KEEL_BARRIER) return UINT64_MAX;
  return selection_key.staged ? kStagedEagerBytes : kMostEagerBytes;
}

// Whether |algorithm| supports calls of |bytes|. |narrow|: calls that lose precision by partial
// results.
bool can_do(Algorithm algorithm, keel_collective collective, bool narrow,
            const SelectionKey& selection_key, uint64_t bytes) {
  if (!applies(algorithm, collective, selection_key.world)) return false;
  if (narrow && reduces(collective) && has_partial_results(algorithm)) return false;
  return algorithm != Algorithm::kEager || bytes <= most_eager_bytes(collective, selection_key);
}

// The best of the |rules| that cover |bytes| and pass |can_do|; NULL if there is none.
template <typename CanDo>
const Rule* best(const std::vector<const Rule*>& rules, uint64_t bytes, const CanDo& can_do) {
  const Rule* found = nullptr;
  for (const Rule* rule : rules) {
    if (rule->first_byte_count > bytes || bytes > rule->last_byte_count) continue;
    if (!can_do(*rule)) continue;
    if (found == nullptr || rule->score >= found->score) found = rule;
  }
  return found;
}

// Byte counts of calls whose foreign buffers are read in place.
struct Attached {
  uint64_t first = 0;
  uint64_t last = UINT64_MAX;
};

// Reading in place takes one system call per read and no second copy. A system call costs 0.5 us,
// and the same again for each rank that shares the core, and leaves what it reads in the caches.
// Staging costs less for short pieces read from many ranks, and for data that all ranks read and no
// cache holds. Two cores, attach and staging: all_gather of 8 KiB by 8 ranks 41 us and 23, of 128
// KiB 260 and 290, of 8 MiB 27 ms and 20; all_to_all among 8 ranks in pieces of 8 KiB 41 us and 33,
// of 32 KiB 84 and 140; broadcast of 16 MiB by 2 ranks 1.24 ms and 1.40, of 64 MiB 7.9 and 5.3.
Attached attached_bytes(keel_collective collective, const SelectionKey& selection_key) {
  const uint64_t world = selection_key.world;
  const uint64_t cached = reduce_scatter_chunks_of(selection_key).streamed_bytes - 1;
  switch (collective) {
    case KEEL_ALL_REDUCE:
      // Every rank copies the data of all other ranks: cheaper than bounce buffers with one other
      // rank (64 KiB 7 us instead of 13), not with three (40 instead of 31).
      if (world > 2) return {1, 0};
      return {0, kMostCopiedOneShot};
    case KEEL_BROADCAST:
      return {0, cached};
    case KEEL_ALL_GATHER:
      if (!selection_key.oversubscribed) return {};
      return {(4 << 10) * world + 1, cached / world};
    case KEEL_ALL_TO_ALL:
      if (!selection_key.oversubscribed) return {};
      return {(8 << 10) * world + 1, UINT64_MAX};
    default:
      return {};
  }
}

ForeignWay built_in_foreign(keel_collective collective, const SelectionKey& selection_key,
                            uint64_t bytes) {
  const Attached attached = attached_bytes(collective, selection_key);
  const bool is_attached =
      can_attach(collective) && attached.first <= bytes && bytes <= attached.last;
  return is_attached ? ForeignWay::kAttach : ForeignWay::kStaging;
}

bool can_do(ForeignWay way, keel_collective collective) {
  return way == ForeignWay::kStaging || can_attach(collective);
}

// Sizes after which the best choice may change: |ends| and the limits of |rules|.
std::vector<uint64_t> ends_of(const std::vector<const Rule*>& rules, std::vector<uint64_t> ends) {
  for (const Rule* rule : rules) {
    if (rule->first_byte_count != 0) ends.push_back(rule->first_byte_count - 1);
    ends.push_back(rule->last_byte_count);
  }
  ends.push_back(UINT64_MAX);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

// Writes one range for each run of |ends| with the same result of |choose|. Returns false if there
// are too many ranges.
template <typename Choose>
bool set_ranges(const std::vector<uint64_t>& ends, const Choose& choose, Selection::Range* ranges) {
  uint32_t count = 0;
  for (const uint64_t end : ends) {
    const auto way = static_cast<uint64_t>(choose(end));
    if (count != 0 && ranges[count - 1].way == way) {
      ranges[count - 1].last = end;
      continue;
    }
    if (count == Selection::kMostRanges) return false;
    ranges[count++] = {end, way};
  }
  return true;
}

// Whether the ranges ascend, terminate, and all satisfy |is_able|.
template <typename IsAble>
bool are_ranges(const Selection::Range* ranges, const IsAble& is_able) {
  for (uint32_t at = 0; at < Selection::kMostRanges; ++at) {
    const bool is_rising = at == 0 || ranges[at].last > ranges[at - 1].last;
    if (!is_rising || !is_able(ranges[at])) return false;
    if (ranges[at].last == UINT64_MAX) return true;
  }
  return false;
}

const Selection::Range& range_at(const Selection::Range* range, uint64_t bytes) {
  while (bytes > range->last) ++range;
  return *range;
}

// [{"to": 4096, "|key|": "eager"}, ...]; |name|(way) returns a string.
template <typename Name>
void write_ranges(JsonWriter& json, const Selection::Range* range, const char* key,
                  const Name& name) {
  json.begin_array();
  for (bool is_last = false; !is_last; ++range) {
    is_last = range->last == UINT64_MAX;
    json.begin_object();
    if (!is_last) json.key("to").number(range->last);
    json.key(key).text(name(range->way));
    json.end_object();
  }
  json.end_array();
}

bool equal_ranges(const Selection::Range* a, const Selection::Range* b) {
  for (;; ++a, ++b) {
    if (a->last != b->last || a->way != b->way) return false;
    if (a->last == UINT64_MAX) return true;
  }
}

}  // namespace

bool Rule::fits(const SelectionKey& selection_key) const {
  return !is_for_hosts() && first_world <= selection_key.world &&
         selection_key.world <= last_world &&
         staged.value_or(selection_key.staged) == selection_key.staged &&
         oversubscribed.value_or(selection_key.oversubscribed) == selection_key.oversubscribed;
}

Status Selection::make(const std::vector<Rule>& rules, const SelectionKey& selection_key,
                       Selection* out_selection) {
  out_selection->reduce_scatter_chunks_ = reduce_scatter_chunks_of(selection_key);
  const auto too_many = [&](const char* what, keel_collective collective) {
    return failure(KEEL_INVALID_ARGUMENT, "more than {} ranges of bytes for {}{} among {} ranks",
                   kMostRanges, what, collective_name(collective), selection_key.world);
  };
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    std::vector<const Rule*> fitting;
    std::vector<const Rule*> foreign;
    for (const Rule& rule : rules) {
      if (rule.collective != collective || !rule.fits(selection_key)) continue;
      (rule.foreign ? foreign : fitting).push_back(&rule);
    }
    const std::vector<uint64_t> ends = ends_of(
        fitting, {built_in_eager_bytes(collective, selection_key),
                  most_eager_bytes(collective, selection_key), one_shot_bytes(selection_key)});
    for (const bool narrow : {false, true}) {
      const auto algorithm_at = [&](uint64_t bytes) {
        const Rule* const rule = best(fitting, bytes, [&](const Rule& each) {
          return can_do(each.algorithm, collective, narrow, selection_key, bytes);
        });
        return rule == nullptr ? built_in(collective, selection_key, bytes) : rule->algorithm;
      };
      if (!set_ranges(ends, algorithm_at, out_selection->ranges_[i][narrow ? 1 : 0])) {
        return too_many("", collective);
      }
    }
    const auto foreign_at = [&](uint64_t bytes) {
      const Rule* const rule =
          best(foreign, bytes, [&](const Rule& each) { return can_do(*each.foreign, collective); });
      return rule == nullptr ? built_in_foreign(collective, selection_key, bytes) : *rule->foreign;
    };
    const Attached attached = attached_bytes(collective, selection_key);
    if (!set_ranges(ends_of(foreign, {attached.first - 1, attached.last}), foreign_at,
                    out_selection->foreign_[i])) {
      return too_many("foreign buffers of ", collective);
    }
  }
  return {};
}

Status Selection::check(const SelectionKey& selection_key) const {
  // At least a page, or the rounds would never end.
  if (reduce_scatter_chunks_.round_bytes < 4096) {
    return failure(KEEL_RANK_FAILED, "its rounds of divided sums are of {} bytes",
                   reduce_scatter_chunks_.round_bytes);
  }
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!applies(Algorithm::kEager, collective, selection_key.world)) continue;  // no choice
    for (const bool narrow : {false, true}) {
      const bool are_able = are_ranges(ranges_of(collective, narrow), [&](const Range& range) {
        return range.way < kAlgorithms && can_do(static_cast<Algorithm>(range.way), collective,
                                                 narrow, selection_key, range.last);
      });
      if (!are_able) {
        return failure(KEEL_RANK_FAILED, "its table of algorithms for {} is none",
                       collective_name(collective));
      }
    }
    const bool are_able = are_ranges(foreign_[i], [&](const Range& range) {
      return range.way < kForeignWays && can_do(static_cast<ForeignWay>(range.way), collective);
    });
    if (!are_able) {
      return failure(KEEL_RANK_FAILED, "its table for foreign buffers of {} is none",
                     collective_name(collective));
    }
  }
  return {};
}

uint64_t bytes_of(const Request& request, uint32_t world) {
  return request.count * request.element() * std::max(request.send_parts(world), 1u);
}

Algorithm Selection::choose(const Request& request, uint32_t world) const {
  const keel_collective collective = request.collective;
  if (collective == KEEL_SEND_RECV || has_arrays(collective)) return Algorithm::kDirect;
  const bool narrow = reduces(collective) && loses_by_parts(request.dtype, request.reduction);
  return static_cast<Algorithm>(
      range_at(ranges_of(collective, narrow), bytes_of(request, world)).way);
}

ForeignWay Selection::choose_foreign(const Request& request, uint32_t world) const {
  const keel_collective collective = request.collective;
  if (collective == KEEL_SEND_RECV || has_arrays(collective)) {
    return can_attach(collective) ? ForeignWay::kAttach : ForeignWay::kStaging;
  }
  return static_cast<ForeignWay>(range_at(foreign_[collective], bytes_of(request, world)).way);
}

uint64_t Selection::eager_bytes(keel_collective collective) const {
  const Range& first = ranges_of(collective, false)[0];
  return first.way == static_cast<uint64_t>(Algorithm::kEager) ? first.last : 0;
}

void Selection::write(JsonWriter& json, bool narrow) const {
  json.begin_object();
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective))) continue;
    if (narrow && !reduces(collective)) continue;
    json.key(collective_name(collective));
    write_ranges(json, ranges_of(collective, narrow), "algorithm",
                 [](uint64_t way) { return algorithm_name(static_cast<Algorithm>(way)); });
  }
  json.end_object();
}

void Selection::write_foreign(JsonWriter& json) const {
  json.begin_object();
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective)) || !can_attach(collective)) continue;
    json.key(collective_name(collective));
    write_ranges(json, foreign_[i], "way",
                 [](uint64_t way) { return foreign_way_name(static_cast<ForeignWay>(way)); });
  }
  json.end_object();
}

bool Selection::operator==(const Selection& other) const {
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective))) continue;
    for (const bool narrow : {false, true}) {
      if (narrow && !reduces(collective)) continue;
      if (!equal_ranges(ranges_of(collective, narrow), other.ranges_of(collective, narrow))) {
        return false;
      }
    }
    if (can_attach(collective) && !equal_ranges(foreign_[i], other.foreign_[i])) return false;
  }
  return true;
}

}  // namespace keel
