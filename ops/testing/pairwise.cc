// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/pairwise.h"

#include <cstdint>
#include <limits>

namespace keel::ops {
namespace {

constexpr size_t kUnset = std::numeric_limits<size_t>::max();

// The pairs of levels not yet covered. Greedy: a row starts with the first open pair, then gets for
// each other factor the level that covers most open pairs with the row so far.
class Pairs {
 public:
  Pairs(const std::vector<size_t>& levels, const std::vector<Exclusion>& exclusions)
      : levels_(levels), first_(levels.size(), 0) {
    size_t total = 0;
    for (size_t factor = 0; factor < levels.size(); ++factor) {
      first_[factor] = total;
      total += levels[factor];
    }
    total_ = total;
    states_.assign(total * total, kMet);
    for (size_t a = 0; a < levels.size(); ++a) {
      for (size_t b = a + 1; b < levels.size(); ++b) {
        for (size_t i = 0; i < levels[a]; ++i) {
          for (size_t j = 0; j < levels[b]; ++j) set(a, i, b, j, kOpen);
        }
      }
    }
    for (const Exclusion& each : exclusions) {
      set(each.factor, each.level, each.other_factor, each.other_level, kExcluded);
    }
    uses_.assign(total, 0);
  }

  // Returns whether a pair is open. If so, sets the pair's two levels in |*row|; other entries are
  // unset.
  bool begin(std::vector<size_t>* row) const {
    for (size_t a = 0; a < levels_.size(); ++a) {
      for (size_t b = a + 1; b < levels_.size(); ++b) {
        for (size_t i = 0; i < levels_[a]; ++i) {
          for (size_t j = 0; j < levels_[b]; ++j) {
            if (state(a, i, b, j) != kOpen) continue;
            row->assign(levels_.size(), kUnset);
            (*row)[a] = i;
            (*row)[b] = j;
            return true;
          }
        }
      }
    }
    return false;
  }

  // Returns the level of |factor| that covers most open pairs with |row|; among equals the least
  // used one.
  size_t best(const std::vector<size_t>& row, size_t factor) const {
    size_t best = 0;
    size_t most = 0;
    bool found = false;
    for (size_t level = 0; level < levels_[factor]; ++level) {
      size_t open = 0;
      bool allowed = true;
      for (size_t other = 0; other < row.size(); ++other) {
        if (row[other] == kUnset || other == factor) continue;
        const State of = state(factor, level, other, row[other]);
        allowed &= of != kExcluded;
        open += of == kOpen ? 1 : 0;
      }
      if (!allowed) continue;
      const bool is_better = open > most || (open == most && uses_[first_[factor] + level] <
                                                                 uses_[first_[factor] + best]);
      if (found && !is_better) continue;
      found = true;
      best = level;
      most = open;
    }
    return best;
  }

  void meet(const std::vector<size_t>& row) {
    for (size_t a = 0; a < row.size(); ++a) {
      ++uses_[first_[a] + row[a]];
      for (size_t b = a + 1; b < row.size(); ++b) set(a, row[a], b, row[b], kMet);
    }
  }

 private:
  enum State : uint8_t { kMet, kOpen, kExcluded };

  State state(size_t a, size_t i, size_t b, size_t j) const {
    return states_[(first_[a] + i) * total_ + first_[b] + j];
  }
  void set(size_t a, size_t i, size_t b, size_t j, State value) {
    states_[(first_[a] + i) * total_ + first_[b] + j] = value;
    states_[(first_[b] + j) * total_ + first_[a] + i] = value;
  }

  const std::vector<size_t> levels_;
  std::vector<size_t> first_;  // by factor: index of its first level
  size_t total_ = 0;
  std::vector<State> states_;  // by pair of levels
  std::vector<size_t> uses_;
};

}  // namespace

std::vector<std::vector<size_t>> pairwise(const std::vector<size_t>& levels,
                                          const std::vector<Exclusion>& exclusions) {
  std::vector<std::vector<size_t>> rows;
  if (levels.size() == 1) {
    for (size_t level = 0; level < levels[0]; ++level) rows.push_back({level});
    return rows;
  }
  Pairs pairs(levels, exclusions);
  std::vector<size_t> row;
  while (pairs.begin(&row)) {
    for (size_t factor = 0; factor < levels.size(); ++factor) {
      if (row[factor] == kUnset) row[factor] = pairs.best(row, factor);
    }
    pairs.meet(row);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace keel::ops
