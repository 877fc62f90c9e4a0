// SPDX-License-Identifier: Apache-2.0
// What was measured, as JSON for machines and Markdown for people.
#ifndef KEEL_BENCH_REPORT_H_
#define KEEL_BENCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"

namespace keel::bench {

// Of a figure in kMebibytes, what a contender is measured by is bytes: its timings hold them
// where those of others hold seconds.
enum class Unit { kNanoseconds, kMicroseconds, kMilliseconds, kGigaflops, kGigabytes, kMebibytes };

// What a figure says of its subject.
enum class Measure {
  kRatio,       // to the peer: of times, of rates, or of bytes
  kDifference,  // from the peer, in the figure's unit of time
  kSubject      // the time of the subject alone
};

// Of times and bytes at most, of rates at least: a ratio, or a time in the figure's unit.
struct Target {
  double bound;
  // That the subject may have more than the peer, in whole ones: what happens once in a thousand
  // calls is none of a call's. 0: any number.
  double instructions = 0;
};

// Of one run, counted by callgrind where the difference of times is small.
struct Instructions {
  double subject;
  double peer;
};

// One comparison. |subject|, |peer| and |limit| are names of contenders; what a machine
// cannot run has |skipped| set and nothing measured.
struct Figure {
  std::string name;   // "cpu_matmul/1024"
  std::string about;  // one sentence: what is compared
  Unit unit = Unit::kMicroseconds;
  Measure measure = Measure::kRatio;
  std::vector<Timings> timings;
  std::string subject;
  std::string peer;
  std::string limit;  // what physics leaves: the best that anybody could get here
  std::optional<Target> target;
  std::optional<Instructions> instructions;
  std::string skipped;
  bool failed = false;  // then |skipped| says why
  // Why what was timed says nothing of the target: it was on small sizes, or on an emulated chip.
  // Of the latter no time is reported either.
  bool quick = false;
  bool emulated = false;

  static Figure skip(std::string name, std::string why);
  static Figure fail(std::string name, const std::string& why);
  // As skip() and fail(), of a figure that keeps its target.
  void leave_out(std::string why);
  void give_up(const std::string& why);

  const Timings& find(const std::string& contender) const;
  // What |measure| says.
  Estimate result() const;
  // Nothing without a target, when skipped, or when nothing was measured. Judged by the median,
  // and by the instructions where they were counted.
  std::optional<bool> met() const;
};

// One line for the console: the figure, its result, and whether the target is met.
std::string to_line(const Figure& figure);
// |quick|: of a run that was to show no more than that they can be taken.
std::string to_markdown(const Machine& machine, const std::vector<Figure>& figures, bool quick);
// The members that a report has of it.
std::string to_json(const Machine& machine);
// "format": 2.
std::string to_json(const Machine& machine, const std::vector<Figure>& figures, bool quick);

}  // namespace keel::bench

#endif  // KEEL_BENCH_REPORT_H_
