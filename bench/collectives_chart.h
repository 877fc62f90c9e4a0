// SPDX-License-Identifier: Apache-2.0
// Draws the ratios of a collectives comparison.
#ifndef KEEL_BENCH_COLLECTIVES_CHART_H_
#define KEEL_BENCH_COLLECTIVES_CHART_H_

#include <string>

#include "bench/collectives_report.h"

namespace keel::bench {

// Returns SVG, readable on light and on dark backgrounds: a row per setting, a panel per operation,
// a line per number of ranks, a dot with an interval per cell. A dot is the best peer's time
// divided by Keel's, on a logarithmic scale; in a report without Keel, divided by the bound's time.
std::string to_svg(const CollectivesReport& report);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_CHART_H_
