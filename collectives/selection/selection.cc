#include "collectives/selection/selection.h"

#include <type_traits>

#include "collectives/operation.h"
#include "collectives/transports/control_segment.h"

namespace keel {

static_assert(std::is_trivially_copyable_v<Selection>);
static_assert(kMostEagerBytes == ControlSegment::kEagerBytes);

namespace {

// Of what a rank sends. Copying it into the post costs some 40 us a MiB and spares one or two
// synchronisations. With a core for each rank that is 0.2 us. With more ranks than cores it is
// as much as a change of process for each rank that shares the core: 5 us for 4 ranks on two
// cores, 11 for 8.
uint64_t built_in_eager_bytes(keel_collective collective, const Surroundings& surroundings) {
  constexpr uint64_t kUncrowded = 4 << 10;
  if (collective == KEEL_BARRIER) return UINT64_MAX;
  if (surroundings.staged) return kStagedEagerBytes;
  if (!surroundings.crowded) return kUncrowded;
  switch (collective) {
    case KEEL_BROADCAST:  // which one rank copies alone
    case KEEL_SCATTER:
      return kMostEagerBytes;
    case KEEL_REDUCE_SCATTER:
    case KEEL_ALL_TO_ALL:
      return 32 << 10;
    case KEEL_ALL_REDUCE:  // whose data every rank reads whole
    case KEEL_REDUCE:
      return std::clamp<uint64_t>((128 << 10) / surroundings.world, 256, 16 << 10);
    default:
      return 16 << 10;
  }
}

// One_shot reads world times the data, so only up to some size.
constexpr uint64_t kOneShotReads = 128 << 10;

Algorithm built_in(keel_collective collective, const Surroundings& surroundings, uint64_t bytes) {
  if (!applies(Algorithm::kEager, collective, surroundings.world)) return Algorithm::kDirect;
  if (bytes <= built_in_eager_bytes(collective, surroundings)) return Algorithm::kEager;
  if (collective == KEEL_ALL_REDUCE && bytes <= kOneShotReads / surroundings.world) {
    return Algorithm::kOneShot;
  }
  return Algorithm::kDirect;
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

Algorithm best(const std::vector<const Rule*>& rules, keel_collective collective, bool narrow,
               const Surroundings& surroundings, uint64_t bytes) {
  const Rule* found = nullptr;
  for (const Rule* rule : rules) {
    if (rule->first_byte_count > bytes || bytes > rule->last_byte_count) continue;
    if (!can_do(rule->algorithm, collective, narrow, surroundings, bytes)) continue;
    if (found == nullptr || rule->score >= found->score) found = rule;
  }
  return found == nullptr ? built_in(collective, surroundings, bytes) : found->algorithm;
}

}  // namespace

bool Rule::fits(const Surroundings& surroundings) const {
  return first_world <= surroundings.world && surroundings.world <= last_world &&
         staged.value_or(surroundings.staged) == surroundings.staged &&
         crowded.value_or(surroundings.crowded) == surroundings.crowded;
}

Status Selection::make(const std::vector<Rule>& rules, const Surroundings& surroundings,
                       Selection* out_selection) {
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    // Sizes behind which another may be the best.
    std::vector<uint64_t> ends = {built_in_eager_bytes(collective, surroundings),
                                  most_eager_bytes(collective, surroundings),
                                  kOneShotReads / surroundings.world, UINT64_MAX};
    std::vector<const Rule*> fitting;
    for (const Rule& rule : rules) {
      if (rule.collective != collective || !rule.fits(surroundings)) continue;
      fitting.push_back(&rule);
      if (rule.first_byte_count != 0) ends.push_back(rule.first_byte_count - 1);
      ends.push_back(rule.last_byte_count);
    }
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    for (const bool narrow : {false, true}) {
      Range* const ranges = out_selection->ranges_[i][narrow ? 1 : 0];
      uint32_t count = 0;
      for (const uint64_t end : ends) {
        const auto algorithm =
            static_cast<uint64_t>(best(fitting, collective, narrow, surroundings, end));
        if (count != 0 && ranges[count - 1].algorithm == algorithm) {
          ranges[count - 1].last = end;
          continue;
        }
        if (count == kMostRanges) {
          return failure(KEEL_INVALID_ARGUMENT,
                         "more than {} ranges of bytes for {} among {} ranks", kMostRanges,
                         collective_name(collective), surroundings.world);
        }
        ranges[count++] = {end, algorithm};
      }
    }
  }
  return {};
}

Status Selection::check(const Surroundings& surroundings) const {
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    const bool is_chosen = applies(Algorithm::kEager, collective, surroundings.world);
    for (const bool narrow : {false, true}) {
      bool ends = !is_chosen;
      const Range* const ranges = ranges_of(collective, narrow);
      for (uint32_t at = 0; at < kMostRanges && !ends; ++at) {
        const auto algorithm = static_cast<Algorithm>(ranges[at].algorithm);
        const bool is_rising = at == 0 || ranges[at].last > ranges[at - 1].last;
        if (!is_rising || ranges[at].algorithm >= kAlgorithms ||
            !can_do(algorithm, collective, narrow, surroundings, ranges[at].last)) {
          break;
        }
        ends = ranges[at].last == UINT64_MAX;
      }
      if (!ends) {
        return failure(KEEL_RANK_FAILED, "its table of algorithms for {} is none",
                       collective_name(collective));
      }
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
  const uint64_t bytes = bytes_of(request, world);
  const Range* range = ranges_of(collective, narrow);
  while (bytes > range->last) ++range;
  return static_cast<Algorithm>(range->algorithm);
}

uint64_t Selection::eager_bytes(keel_collective collective) const {
  const Range& first = ranges_of(collective, false)[0];
  return first.algorithm == static_cast<uint64_t>(Algorithm::kEager) ? first.last : 0;
}

std::string Selection::json(bool narrow) const {
  std::string text;
  for (uint32_t i = 0; i < KEEL_COLLECTIVE_COUNT; ++i) {
    const auto collective = static_cast<keel_collective>(i);
    if (!find_chosen_collective(collective_name(collective))) continue;
    if (narrow && !reduces(collective)) continue;
    text += fmt::format("{}\"{}\": [", text.empty() ? "" : ", ", collective_name(collective));
    for (const Range* range = ranges_of(collective, narrow);; ++range) {
      const bool is_last = range->last == UINT64_MAX;
      text += is_last ? std::string("{") : fmt::format("{{\"to\": {}, ", range->last);
      text += fmt::format("\"algorithm\": \"{}\"}}",
                          algorithm_name(static_cast<Algorithm>(range->algorithm)));
      if (is_last) break;
      text += ", ";
    }
    text += "]";
  }
  return "{" + text + "}";
}

bool Selection::operator==(const Selection& other) const {
  return json(false) == other.json(false) && json(true) == other.json(true);
}

}  // namespace keel
