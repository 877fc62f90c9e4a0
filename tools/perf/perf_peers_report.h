// SPDX-License-Identifier: Apache-2.0
// Text and JSON output of `keel perf --peers`.
#ifndef KEEL_TOOLS_PERF_PERF_PEERS_REPORT_H_
#define KEEL_TOOLS_PERF_PERF_PEERS_REPORT_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/collectives_contenders.h"
#include "bench/collectives_samples.h"
#include "bench/harness.h"
#include "tools/command.h"
#include "tools/perf/perf_options.h"

namespace keel::cli {

struct PeerTime {
  std::string library;
  std::string way;  // "Open MPI, CMA: segmented ring"
  std::optional<bench::Estimate> microseconds;
};

// A size of an operation.
struct PeersRow {
  bench::Cell cell;
  PeerTime keel;
  std::vector<PeerTime> peers;           // in column order
  std::optional<bench::Estimate> ratio;  // fastest peer's time / Keel's, round by round
};

// If a library can be launched in several ways, the launch with the smallest median counts, as a
// user would choose.
PeersRow compare_peers(const bench::Samples& samples,
                       std::span<const bench::LaunchedContender> contenders,
                       std::span<const std::string> libraries, const bench::Cell& cell);

// The lines above the rows.
std::string peers_head(std::span<const std::string> libraries);
std::string peers_row_text(const PeersRow& row);
Json peers_row_json(const PeersRow& row);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_PEERS_REPORT_H_
