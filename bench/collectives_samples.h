// SPDX-License-Identifier: Apache-2.0
// Collects the measurements of the collectives comparison, launch by launch.
#ifndef KEEL_BENCH_COLLECTIVES_SAMPLES_H_
#define KEEL_BENCH_COLLECTIVES_SAMPLES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/peers/measurement.h"

namespace keel::bench {

// An operation of a size with a number of ranks.
struct Cell {
  peers::Operation operation;
  uint32_t ranks;
  uint64_t bytes;
  auto operator<=>(const Cell&) const = default;
};

// The times of a contender in a cell, in microseconds, by round. Failed rounds are absent.
using Rounds = std::map<uint32_t, double>;

class Samples {
 public:
  void add(const std::string& contender, uint32_t round, const peers::Measurement& measurement);

  // Returns an empty map if the contender has no measurement in |cell|.
  const Rounds& of(const std::string& contender, const std::string& form, const Cell& cell) const;
  // Returns the algorithm used in most rounds; empty without measurements.
  std::string usual_way(const std::string& contender, const std::string& form,
                        const Cell& cell) const;
  // Returns every cell with a measurement of any contender, in order.
  std::vector<Cell> cells() const;
  // A readable line per wrong result.
  const std::vector<std::string>& wrong_results() const { return wrong_; }

 private:
  struct Key {
    std::string contender;
    std::string form;
    Cell cell;
    auto operator<=>(const Key&) const = default;
  };
  struct Entry {
    Rounds rounds;
    std::map<std::string, uint32_t> ways;
  };
  std::map<Key, Entry> entries_;
  std::vector<std::string> wrong_;
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_SAMPLES_H_
