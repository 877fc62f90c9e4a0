// SPDX-License-Identifier: Apache-2.0
// The comparison of collectives, as JSON for machines and Markdown for people.
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
  double cell_seconds = 0;  // of each timed loop
  double minutes = 0;       // that all of it took
  struct PerSetting {
    Setting setting;
    std::vector<Comparison> comparisons;
  };
  std::vector<PerSetting> settings;
  std::vector<std::string> wrong;   // results
  std::vector<std::string> failed;  // launches
  std::vector<std::string> absent;  // contenders, and why
};

std::string to_markdown(const CollectivesReport& report);
// "format": 1.
std::string to_json(const CollectivesReport& report);

// "8 B", "64 KiB".
std::string size_text(uint64_t bytes);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_REPORT_H_
