// SPDX-License-Identifier: Apache-2.0
// What a peer tells of one operation of one size: one line of JSON on standard output.
#ifndef KEEL_BENCH_PEERS_MEASUREMENT_H_
#define KEEL_BENCH_PEERS_MEASUREMENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "bench/peers/shape.h"

namespace keel::bench::peers {

struct Measurement {
  Operation operation;
  uint32_t ranks;
  uint64_t bytes;  // as asked for
  uint64_t moved;  // of the larger buffer: what |bytes| was rounded to
  std::string way;
  std::string form;
  uint64_t times;       // operations in the timed loop
  double microseconds;  // of one: the loop's mean, of the slowest rank
  bool right;           // every element of every rank's result, before the loop and after
};

// Without a line end.
std::string to_line(const Measurement& measurement);
// Nothing for a line that is none, such as a launcher's warning.
std::optional<Measurement> parse_line(const std::string& line);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_MEASUREMENT_H_
