// SPDX-License-Identifier: Apache-2.0
// Reports the figures: JSON for machines, Markdown for people.
#ifndef KEEL_BENCH_REPORT_H_
#define KEEL_BENCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"

namespace keel::bench {

// In a figure in kMebibytes the timings hold bytes instead of seconds, in kInstructions
// instructions.
enum class Unit {
  kNanoseconds,
  kMicroseconds,
  kMilliseconds,
  kGigaflops,
  kGigabytes,
  kMebibytes,
  kInstructions
};

// How a figure describes its subject.
enum class Measure {
  kRatio,       // to the peer: times, rates, bytes or instructions
  kDifference,  // from the peer, in the figure's unit of time
  kSubject      // the subject's time alone
};

// The bound of a ratio, or of a time in the figure's unit: a lower bound for rates, an upper bound
// for all else.
struct Target {
  double bound;
  // Instructions that the subject may execute beyond the peer's, compared in whole instructions:
  // work done once in a thousand calls does not count. 0: no bound.
  double instructions = 0;
};

// Instructions of one run, counted by callgrind where the difference in time is small.
struct Instructions {
  double subject;
  double peer;
};

// One comparison. |subject|, |peer| and |limit| are names of contenders. If the machine cannot run
// the figure, |skipped| is set and nothing is measured.
struct Figure {
  std::string name;   // "cpu_matmul/1024"
  std::string about;  // one sentence about the comparison
  Unit unit = Unit::kMicroseconds;
  Measure measure = Measure::kRatio;
  std::vector<Timings> timings;
  std::string subject;
  std::string peer;
  std::string limit;  // contender at the hardware limit: the best possible here
  std::optional<Target> target;
  std::optional<Instructions> instructions;
  std::string skipped;
  bool failed = false;  // then |skipped| is the reason
  // Set if the timings cannot be judged by the target: sizes were small, or the chip was emulated.
  // Times of an emulated chip are not reported either.
  bool quick = false;
  bool emulated = false;

  static Figure skip(std::string name, std::string why);
  static Figure fail(std::string name, const std::string& why);
  // Like skip() and fail(), but the figure keeps its target.
  void leave_out(std::string why);
  void give_up(const std::string& why);

  const Timings& find(const std::string& contender) const;
  // The value that |measure| names.
  Estimate result() const;
  // Returns whether the median, and the instructions if counted, meet the target; nothing without a
  // target, if skipped, or if nothing was measured.
  std::optional<bool> met() const;
};

// Returns one console line: the figure, its result, and whether the target is met.
std::string to_line(const Figure& figure);
// |quick|: the run only tested that the figures can be measured.
std::string to_markdown(const Machine& machine, const std::vector<Figure>& figures, bool quick);
// Returns the machine's members of a report.
std::string to_json(const Machine& machine);
// "format": 2.
std::string to_json(const Machine& machine, const std::vector<Figure>& figures, bool quick);

}  // namespace keel::bench

#endif  // KEEL_BENCH_REPORT_H_
