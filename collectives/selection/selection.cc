// SPDX-License-Identifier: Apache-2.0
#include "collectives/selection/selection.h"

#include <type_traits>

#include "collectives/operation.h"
#include "collectives/transports/control_segment.h"

namespace keel {

static_assert(std::is_trivially_copyable_v<Selection>);
static_assert(kMostEagerBytes == ControlSegment::kEagerBytes);

namespace {

// Of what a rank sends. Copying it into the post spares one or two synchronisations. With a core
// for each rank that is 0.2 us. With more ranks than cores it is as much as a change of process for
// each rank that shares the core: 4 and 8 ranks on two cores (Granite Rapids) take as long either
// way where the limits are, and twice as long the wrong way at 64 KiB: a broadcast by 4 ranks 13.0
// us and 5.5, a reduction 9.4 and 14.8.
uint64_t built_in_eager_bytes(keel_collective collective, const Surroundings& surroundings) {
  constexpr uint64_t kUncrowded = 4 << 10;
  if (collective == KEEL_BARRIER) return UINT64_MAX;
  if (surroundings.staged) return kStagedEagerBytes;
  if (!surroundings.crowded) return kUncrowded;
  switch (collective) {
    case KEEL_REDUCE:  // of which one rank reads all posts, and the others need nothing more
      return std::clamp<uint64_t>((512 << 10) / surroundings.world, 256, kMostEagerBytes);
    case KEEL_SCATTER:  // of which each rank reads a part
      return 32 << 10;
    case KEEL_ALL_GATHER:  // of which each rank reads as much from all
      return 4 << 10;
    case KEEL_ALL_REDUCE:  // whose data every rank reads whole
      return std::clamp<uint64_t>((128 << 10) / surroundings.world, 256, 16 << 10);
    default:
      return 16 << 10;
  }
}

// One_shot reads world times the data and spares a synchronisation: only as long as all of it
// leaves half of a core's own cache to others. From 64 KiB of 4 ranks on two cores with 2 MiB each
// it takes 15 us instead of 22, of 8 ranks 35 instead of 63; where it no longer fits, twice as
// long.
uint64_t one_shot_bytes(const Surroundings& surroundings) {
  constexpr uint64_t kLeastReads = 128 << 10;
  const uint64_t world = surroundings.world;
  return std::max(kLeastReads / world, surroundings.caches.own / 2 / (world + 1));
}

Algorithm built_in(keel_collective collective, const Surroundings& surroundings, uint64_t bytes) {
  if (!applies(Algorithm::kEager, collective, surroundings.world)) return Algorithm::kDirect;
  if (bytes <= built_in_eager_bytes(collective, surroundings)) return Algorithm::kEager;
  if (collective == KEEL_ALL_REDUCE && bytes <= one_shot_bytes(surroundings)) {
    return Algorithm::kOneShot;
  }
  return Algorithm::kDirect;
}

// Rounds small enough that a last-level cache, of which others have their part, still holds the
// sums when they are gathered, and no smaller than what a barrier is nothing beside: between more
// ranks than cores it costs a time slice or two. What it cannot hold anyway costs least as
// streaming stores, which do not read what they write over. On two cores of a Granite Rapids with
// 480 MiB, 2 ranks: 16 MiB 1.59 ms in one round, 1.72 in rounds of 2 MiB, 1.96 streamed; 64 MiB
// 8.0, 8.5 and 6.7.
DividedSums divided_sums_of(const Surroundings& surroundings) {
  constexpr uint64_t kMiB = 1 << 20;
  constexpr uint64_t kLeastStreamed = 8 * kMiB;
  const uint64_t least_round = surroundings.crowded ? 8 * kMiB : 2 * kMiB;
  const uint64_t world = surroundings.world;
  const uint64_t last = surroundings.caches.last;
  // Whole MiB, so that rounds begin with a cache line where the data does.
  return {std::max(least_round, last / 4 / (world + 1) / kMiB * kMiB),
          std::max(kLeastStreamed, last / 3 / (2 * world))};
}

uint64_t most_eager_bytes(keel_collective collective, const Surroundings& surroundings) {
  if (collective == KEEL_BARRIER) return UINT64_MAX;
  return surroundings.staged ? kStagedEagerBytes : kMostEagerBytes;
}

// Whether |algorithm| can do calls of |bytes|; |narrow|: that lose by partial results.
bool can_do(Algorithm algorithm, keel_collective collective, bool narrow,
            const Surroundings& surroundings, uint64_t bytes) {
  if (!applies(algorithm, collective, surroundings.world)) return false;
  if (narrow && reduces(collective) && has_partial_results(algorithm)) return false;
  return algorithm != Algorithm::kEager || bytes <= most_eager_bytes(collective, surroundings);
}

// Of those |rules| that are for |bytes| and |can_do| it; NULL: none.
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

// Calls whose foreign buffers others read where they are.
struct Attached {
  uint64_t first = 0;
  uint64_t last = UINT64_MAX;
};

// One call of the kernel reads what another process has. Nothing is copied twice, but a call takes
// 0.5 us, and as much for each rank that shares the core; and it stores what it reads in the
// caches. Staged for less is what is read in short pieces from many, and what all read that no
// cache holds. Two cores, attach and staging: all_gather of 8 KiB by 8 ranks 41 us and 23, of 128
// KiB 260 and 290, of 8 MiB 27 ms and 20; all_to_all among 8 ranks in pieces of 8 KiB 41 us and 33,
// of 32 KiB 84 and 140; broadcast of 16 MiB by 2 ranks 1.24 ms and 1.40, of 64 MiB 7.9 and 5.3.
Attached attached_bytes(keel_collective collective, const Surroundings& surroundings) {
  const uint64_t world = surroundings.world;
  const uint64_t cached = divided_sums_of(surroundings).streamed_bytes - 1;
  switch (collective) {
    case KEEL_ALL_REDUCE:
      // Every rank copies what all others have: of one other that is cheaper than windows (64 KiB 7
      // us instead of 13), of three it is not (40 instead of 31).
      if (world > 2) return {1, 0};
      return {0, kMostCopiedOneShot};
    case KEEL_BROADCAST:
      return {0, cached};
    case KEEL_ALL_GATHER:
      if (!surroundings.crowded) return {};
      return {(4 << 10) * world + 1, cached / world};
    case KEEL_ALL_TO_ALL:
      if (!surroundings.crowded) return {};
      return {(8 << 10) * world + 1, UINT64_MAX};
    default:
      return {};
  }
}

ForeignWay built_in_foreign(keel_collective collective, const Surroundings& surroundings,
                            uint64_t bytes) {
  const Attached attached = attached_bytes(collective, surroundings);
  const bool is_attached =
      can_attach(collective) && attached.first <= bytes && bytes <= attached.last;
  return is_attached ? ForeignWay::kAttach : ForeignWay::kStaging;
}

bool can_do(ForeignWay way, keel_collective collective) {
  return way == ForeignWay::kStaging || can_attach(collective);
}

// Sizes behind which another may be the best: |ends|, and where |rules| begin and end.
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

// One range for each run of |ends| that |choose| says the same of; false: there are too many.
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

// Whether they rise and end, and |is_able| says so of each.
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

// [{"to": 4096, "|key|": "eager"}, ...]; |name|(way) is a string.
template <typename Name>
std::string json_of(const Selection::Range* range, const char* key, const Name& name) {
  std::string text = "[";
  for (;; ++range) {
    const bool is_last = range->last == UINT64_MAX;
    text += is_last ? std::string("{") : fmt::format("{{\"to\": {}, ", range->last);
    text += fmt::format("\"{}\": \"{}\"}}", key, name(range->way));
    if (is_last) return text + "]";
    text += ", ";
  }
}

}  // namespace

bool Rule::fits(const Surroundings& surroundings) const {
  return first_world <= surroundings.world && surroundings.world <= last_world &&
         staged.value_or(surroundings.staged) == surroundings.staged &&
         crowded.value_or(surroundings.crowded) == surroundings.crowded;
}

Status Selection::make(const std::vector<Rule>& rules, const Surroundings& surroundings,
                       Selection* out_selection) {
  out_selection->divided_sums_ = divided_sums_of(surroundings);
  const auto too_many = [&](const char* what, keel_collective collective) {
    return failure(KEEL_INVALID_ARGUMENT, "more than {} ranges of bytes for {}{} among {} ranks",
                   kMostRanges, what, collective_name(collective), surroundings.world);
  };
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    std::vector<const Rule*> fitting;
    std::vector<const Rule*> foreign;
    for (const Rule& rule : rules) {
      if (rule.collective != collective || !rule.fits(surroundings)) continue;
      (rule.foreign ? foreign : fitting).push_back(&rule);
    }
    const std::vector<uint64_t> ends = ends_of(
        fitting, {built_in_eager_bytes(collective, surroundings),
                  most_eager_bytes(collective, surroundings), one_shot_bytes(surroundings)});
    for (const bool narrow : {false, true}) {
      const auto algorithm_at = [&](uint64_t bytes) {
        const Rule* const rule = best(fitting, bytes, [&](const Rule& each) {
          return can_do(each.algorithm, collective, narrow, surroundings, bytes);
        });
        return rule == nullptr ? built_in(collective, surroundings, bytes) : rule->algorithm;
      };
      if (!set_ranges(ends, algorithm_at, out_selection->ranges_[i][narrow ? 1 : 0])) {
        return too_many("", collective);
      }
    }
    const auto foreign_at = [&](uint64_t bytes) {
      const Rule* const rule =
          best(foreign, bytes, [&](const Rule& each) { return can_do(*each.foreign, collective); });
      return rule == nullptr ? built_in_foreign(collective, surroundings, bytes) : *rule->foreign;
    };
    const Attached attached = attached_bytes(collective, surroundings);
    if (!set_ranges(ends_of(foreign, {attached.first - 1, attached.last}), foreign_at,
                    out_selection->foreign_[i])) {
      return too_many("foreign buffers of ", collective);
    }
  }
  return {};
}

Status Selection::check(const Surroundings& surroundings) const {
  // A page at least, or the rounds would have no end.
  if (divided_sums_.round_bytes < 4096) {
    return failure(KEEL_RANK_FAILED, "its rounds of divided sums are of {} bytes",
                   divided_sums_.round_bytes);
  }
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!applies(Algorithm::kEager, collective, surroundings.world)) continue;  // no choice
    for (const bool narrow : {false, true}) {
      const bool are_able = are_ranges(ranges_of(collective, narrow), [&](const Range& range) {
        return range.way < kAlgorithms && can_do(static_cast<Algorithm>(range.way), collective,
                                                 narrow, surroundings, range.last);
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

std::string Selection::json(bool narrow) const {
  std::string text;
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective))) continue;
    if (narrow && !reduces(collective)) continue;
    text += fmt::format("{}\"{}\": ", text.empty() ? "" : ", ", collective_name(collective));
    text += json_of(ranges_of(collective, narrow), "algorithm",
                    [](uint64_t way) { return algorithm_name(static_cast<Algorithm>(way)); });
  }
  return "{" + text + "}";
}

std::string Selection::foreign_json() const {
  std::string text;
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective)) || !can_attach(collective)) continue;
    text += fmt::format("{}\"{}\": ", text.empty() ? "" : ", ", collective_name(collective));
    text += json_of(foreign_[i], "way",
                    [](uint64_t way) { return foreign_way_name(static_cast<ForeignWay>(way)); });
  }
  return "{" + text + "}";
}

bool Selection::operator==(const Selection& other) const {
  return json(false) == other.json(false) && json(true) == other.json(true) &&
         foreign_json() == other.foreign_json();
}

}  // namespace keel
