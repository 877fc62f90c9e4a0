// SPDX-License-Identifier: Apache-2.0
// The report of the collectives comparison: JSON for machines, Markdown for people.
#ifndef KEEL_BENCH_COLLECTIVES_REPORT_H_
#define KEEL_BENCH_COLLECTIVES_REPORT_H_

#include <string>
#include <vector>

#include "bench/collectives_comparison.h"
#include "bench/machine.h"

namespace keel::bench {

struct CollectivesReport {
  Machine machine;
  uint32_t relaunches = 0;
  double cell_seconds = 0;  // of each timed loop, in seconds
  double minutes = 0;       // total time taken
  struct PerSetting {
    Setting setting;
    std::vector<Comparison> comparisons;
  };
  std::vector<PerSetting> settings;
  std::vector<std::string> wrong;   // wrong results
  std::vector<std::string> failed;  // failed launches
  std::vector<std::string> absent;  // absent contenders, with the reason
};

std::string to_markdown(const CollectivesReport& report);
// "format": 1.
std::string to_json(const CollectivesReport& report);

// "8 B", "64 KiB".
std::string size_text(uint64_t bytes);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_REPORT_H_
