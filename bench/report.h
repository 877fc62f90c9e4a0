// What was measured, as JSON for machines and Markdown for people.
#ifndef KEEL_BENCH_REPORT_H_
#define KEEL_BENCH_REPORT_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/machine.h"

namespace keel::bench {

enum class Unit { kMicroseconds, kGigaflops, kGigabytes };

// What the ratio of a figure should be: of times at most, of rates at least.
struct Target {
  double ratio;
};

// One comparison. |subject|, |peer| and |limit| are names of contenders; what a machine
// cannot run has |skipped| set and nothing measured.
struct Figure {
  std::string name;   // "cpu_matmul/1024"
  std::string about;  // one sentence: what is compared
  Unit unit = Unit::kMicroseconds;
  std::vector<Timings> timings;
  std::string subject;
  std::string peer;
  std::string limit;  // what physics leaves: the best that anybody could get here
  std::optional<Target> target;
  std::string skipped;

  static Figure skip(std::string name, std::string why);

  const Timings& find(const std::string& contender) const;
  // Subject to peer: of times in microseconds, of rates otherwise.
  Estimate ratio() const;
  // Nothing without a target or when skipped. Judged by the median.
  std::optional<bool> met() const;
};

// One line for the console: the figure, its ratio, and whether the target is met.
std::string to_line(const Figure& figure);
std::string to_markdown(const Machine& machine, const std::vector<Figure>& figures);
// "format": 1.
std::string to_json(const Machine& machine, const std::vector<Figure>& figures);

}  // namespace keel::bench

#endif  // KEEL_BENCH_REPORT_H_
