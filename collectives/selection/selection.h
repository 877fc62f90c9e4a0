// SPDX-License-Identifier: Apache-2.0
// Which algorithm an operation goes by: the one home of that choice.
#ifndef KEEL_COLLECTIVES_SELECTION_SELECTION_H_
#define KEEL_COLLECTIVES_SELECTION_SELECTION_H_

#include <keel/keel.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/selection/algorithm.h"
#include "collectives/selection/foreign.h"
#include "collectives/selection/host_caches.h"
#include "core/status.h"

namespace keel {

struct Request;

// The most that may travel with the posts: of any rank, and where buffers are staged.
inline constexpr uint64_t kMostEagerBytes = 64 << 10;
inline constexpr uint64_t kStagedEagerBytes = 4096;
// The most of a rank's data that one_shot copies from other processes: see algorithms/one_shot.h.
inline constexpr uint64_t kMostCopiedOneShot = 256 << 10;

// What of a communicator the choice depends on; the same on all its ranks.
struct Surroundings {
  uint32_t world = 1;
  bool staged = false;   // the others cannot reach some rank's buffers
  bool crowded = false;  // more ranks than cores
  HostCaches caches = {};
};

// How `direct` goes about sums that are divided among the ranks, which then gather them.
struct DividedSums {
  uint64_t round_bytes = 0;     // of a rank's data, that are summed up before they are gathered
  uint64_t streamed_bytes = 0;  // from so much on sums go past the caches, in one round

  bool operator==(const DividedSums& other) const = default;
};

// One line of a table. Of the rules that fit a call, the one with the highest score wins, of
// equal ones the last.
struct Rule {
  keel_collective collective = KEEL_ALL_REDUCE;
  uint64_t first_byte_count = 0;  // of what a rank sends: see bytes_of()
  uint64_t last_byte_count = UINT64_MAX;
  uint32_t first_world = 1;
  uint32_t last_world = UINT32_MAX;
  std::optional<bool> staged;
  std::optional<bool> crowded;
  Algorithm algorithm = Algorithm::kDirect;
  std::optional<ForeignWay> foreign;  // it is about buffers that Keel did not allocate alone
  uint32_t score = 0;

  bool fits(const Surroundings& surroundings) const;
};

// Rules, resolved for one communicator: for each collective the sizes up to which each
// algorithm goes, and each way of foreign buffers. Plain memory, so that rank 0's can be given to
// all through the segment, and small, so that a choice costs a few comparisons.
class Selection {
 public:
  static constexpr uint32_t kMostRanges = 16;
  struct Range {
    uint64_t last = 0;  // bytes; UINT64_MAX ends the ranges of a collective
    uint64_t way = 0;   // an Algorithm; of foreign buffers a ForeignWay
  };

  // What is built in, where no rule of |rules| fits. KEEL_INVALID_ARGUMENT: more than
  // kMostRanges for one collective.
  static Status make(const std::vector<Rule>& rules, const Surroundings& surroundings,
                     Selection* out_selection);
  // What came from elsewhere can be used in |surroundings|.
  Status check(const Surroundings& surroundings) const;

  Algorithm choose(const Request& request, uint32_t world) const;
  // How others get at send buffers that Keel did not allocate, where |request| goes direct.
  ForeignWay choose_foreign(const Request& request, uint32_t world) const;
  const DividedSums& divided_sums() const { return divided_sums_; }
  // Bytes up to which |collective| is eager; 0: never.
  uint64_t eager_bytes(keel_collective collective) const;
  // {"all_reduce": [{"to": 4096, "algorithm": "eager"}, ...], ...}; the last has no "to".
  // |narrow|: of sums that lose by partial results.
  std::string json(bool narrow) const;
  // {"broadcast": [{"to": 65536, "way": "staging"}, {"way": "attach"}], ...}: of those collectives
  // in which there is a choice.
  std::string foreign_json() const;
  bool operator==(const Selection& other) const;

 private:
  const Range* ranges_of(keel_collective collective, bool narrow) const {
    return ranges_[collective][narrow ? 1 : 0];
  }

  Range ranges_[KEEL_COLLECTIVE_COUNT][2][kMostRanges] = {};
  Range foreign_[KEEL_COLLECTIVE_COUNT][kMostRanges] = {};
  DividedSums divided_sums_;
};

// What a rank sends, by which its operation is chosen; of broadcast and scatter, the root.
uint64_t bytes_of(const Request& request, uint32_t world);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_SELECTION_H_
