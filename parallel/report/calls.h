// SPDX-License-Identifier: Apache-2.0
// When a message or collective is on its way: all of its ranks have called it.
#ifndef KEEL_PARALLEL_REPORT_CALLS_H_
#define KEEL_PARALLEL_REPORT_CALLS_H_

#include <cstdint>
#include <keel/parallel/report.hpp>
#include <map>
#include <span>
#include <tuple>

namespace keel::parallel {

// The latest call of each message and collective, over all ranks.
class Calls {
 public:
  explicit Calls(std::span<const RankSteps> ranks);

  // Seconds from which |span|, of communication, is on its way; its end if it never is.
  double begin_of(const Span& span) const;

 private:
  // Kind at the sender; stage that sends and micro-batch of a message; group; number of a
  // collective.
  using Key = std::tuple<SpanKind, uint32_t, uint32_t, uint32_t, uint32_t>;
  static Key key_of(const Span& span);

  std::map<Key, double> latest_;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_REPORT_CALLS_H_
