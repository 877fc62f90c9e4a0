// SPDX-License-Identifier: Apache-2.0
// What was measured of collectives, launch by launch.
#ifndef KEEL_BENCH_COLLECTIVES_SAMPLES_H_
#define KEEL_BENCH_COLLECTIVES_SAMPLES_H_

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/peers/measurement.h"

namespace keel::bench {

// One operation of one size among so many ranks.
struct Cell {
  peers::Operation operation;
  uint32_t ranks;
  uint64_t bytes;
  auto operator<=>(const Cell&) const = default;
};

// The microseconds of one contender in one cell: one value a round that it came through.
using Rounds = std::map<uint32_t, double>;

class Samples {
 public:
  void add(const std::string& contender, uint32_t round, const peers::Measurement& measurement);

  // Empty where there are none.
  const Rounds& of(const std::string& contender, const std::string& form, const Cell& cell) const;
  // The way taken most often; empty without one.
  std::string usual_way(const std::string& contender, const std::string& form,
                        const Cell& cell) const;
  // Every cell that anybody was measured in, in order.
  std::vector<Cell> cells() const;
  // One line each, for people.
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
