// SPDX-License-Identifier: Apache-2.0
// The ratios of a comparison of collectives as a picture.
#ifndef KEEL_BENCH_COLLECTIVES_CHART_H_
#define KEEL_BENCH_COLLECTIVES_CHART_H_

#include <string>

#include "bench/collectives_report.h"

namespace keel::bench {

// SVG, readable on light and on dark. A row a setting, a panel an operation, a line a number
// of ranks; a dot a cell, with its interval: how many times as long as Keel the best peer
// takes, on a logarithmic scale. Without Keel in the report: as the bound.
std::string to_svg(const CollectivesReport& report);

}  // namespace keel::bench

#endif  // KEEL_BENCH_COLLECTIVES_CHART_H_
