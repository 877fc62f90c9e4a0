// SPDX-License-Identifier: Apache-2.0
// Chooses the algorithm of an operation; no other code does.
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

class JsonWriter;
struct Request;

// Limits of the data carried inline in the operation descriptors: in general, and with staged
// buffers.
inline constexpr uint64_t kMostEagerBytes = 64 << 10;
inline constexpr uint64_t kStagedEagerBytes = 4096;
// Limit of a rank's data that one_shot copies from a process: see algorithms/one_shot.h.
inline constexpr uint64_t kMostCopiedOneShot = 256 << 10;

// Selection key: the properties of a communicator on which the choice depends. The same on all
// ranks.
struct SelectionKey {
  uint32_t world = 1;
  bool staged = false;          // ranks cannot reach some rank's buffers
  bool oversubscribed = false;  // oversubscribed: more ranks than cores
  HostCaches caches = {};
};

// Chunking of `direct` for reduce-scatter + all-gather.
struct ReduceScatterChunks {
  uint64_t round_bytes = 0;     // of a rank's data, reduced before they are gathered
  uint64_t streamed_bytes = 0;  // from this size on: streaming stores, in one round

  bool operator==(const ReduceScatterChunks& other) const = default;
};

// One line of a table. Among the rules that match a call, the highest score wins; among equal
// scores, the last rule.
struct Rule {
  keel_collective collective = KEEL_ALL_REDUCE;
  uint64_t first_byte_count = 0;  // bytes that a rank sends: see bytes_of()
  uint64_t last_byte_count = UINT64_MAX;
  uint32_t first_world = 1;
  uint32_t last_world = UINT32_MAX;
  std::optional<bool> staged;
  std::optional<bool> oversubscribed;
  Algorithm algorithm = Algorithm::kDirect;
  std::optional<ForeignWay> foreign;  // set: the rule is for foreign buffers only
  uint32_t score = 0;
  // Set: the rule is for communicators over so many hosts; 0: for those of one host.
  uint32_t first_hosts = 0;
  uint32_t last_hosts = 0;

  bool is_for_hosts() const { return last_hosts != 0; }
  // Whether the rule is for a communicator of one host with |selection_key|.
  bool fits(const SelectionKey& selection_key) const;
};

// Rules for several hosts in a table. More would not fit into the text by which rank 0 tells them
// to the other ranks.
inline constexpr size_t kMostHostRules = 24;

// Rules resolved for one communicator: for each collective the sizes up to which each algorithm,
// and each access to foreign buffers, applies. Trivially copyable, so rank 0 can publish the
// selection through the segment, and small, so a choice costs a few comparisons.
class Selection {
 public:
  static constexpr uint32_t kMostRanges = 16;
  struct Range {
    uint64_t last = 0;  // bytes; UINT64_MAX ends the ranges of a collective
    uint64_t way = 0;   // an Algorithm; for foreign buffers a ForeignWay
  };

  // Resolves |rules|; where none matches, the built-in choice applies. Returns
  // KEEL_INVALID_ARGUMENT if a collective needs more than kMostRanges ranges.
  static Status make(const std::vector<Rule>& rules, const SelectionKey& selection_key,
                     Selection* out_selection);
  // Validates a selection from another process for use with |selection_key|.
  Status check(const SelectionKey& selection_key) const;

  Algorithm choose(const Request& request, uint32_t world) const;
  // How the other ranks read foreign send buffers, if |request| runs the direct algorithm.
  ForeignWay choose_foreign(const Request& request, uint32_t world) const;
  const ReduceScatterChunks& reduce_scatter_chunks() const { return reduce_scatter_chunks_; }
  // Bytes up to which |collective| is eager; 0 means never.
  uint64_t eager_bytes(keel_collective collective) const;
  // {"all_reduce": [{"to": 4096, "algorithm": "eager"}, ...], ...}; the last range has no "to".
  // |narrow|: for sums that lose precision by partial results.
  void write(JsonWriter& json, bool narrow) const;
  // {"broadcast": [{"to": 65536, "way": "staging"}, {"way": "attach"}], ...}: the collectives that
  // have a choice.
  void write_foreign(JsonWriter& json) const;
  bool operator==(const Selection& other) const;

 private:
  const Range* ranges_of(keel_collective collective, bool narrow) const {
    return ranges_[collective][narrow ? 1 : 0];
  }

  Range ranges_[KEEL_COLLECTIVE_COUNT][2][kMostRanges] = {};
  Range foreign_[KEEL_COLLECTIVE_COUNT][kMostRanges] = {};
  ReduceScatterChunks reduce_scatter_chunks_;
};

// Bytes that a rank sends, which determine the choice; for broadcast and scatter, bytes that the
// root sends.
uint64_t bytes_of(const Request& request, uint32_t world);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_SELECTION_SELECTION_H_
