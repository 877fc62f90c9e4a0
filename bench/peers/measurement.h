// SPDX-License-Identifier: Apache-2.0
// A peer's result for an operation of a size: a line of JSON on standard output.
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
  uint64_t bytes;  // as requested
  uint64_t moved;  // of the larger buffer: |bytes| after rounding
  std::string way;
  std::string form;
  uint64_t times;       // operations in the timed loop
  double microseconds;  // per operation: the loop's mean on the slowest rank
  bool right;           // every element on every rank was right, before and after the loop
};

// Returns the line without a line end.
std::string to_line(const Measurement& measurement);
// Returns nullopt for any foreign line, for example a launcher's warning.
std::optional<Measurement> parse_line(const std::string& line);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_MEASUREMENT_H_
