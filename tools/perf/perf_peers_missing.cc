// SPDX-License-Identifier: Apache-2.0
// Replaces perf_peers.cc in builds without the benchmarks.
#include "tools/command.h"
#include "tools/perf/perf_peers.h"

namespace keel::cli {

std::vector<std::string> perf_peer_names() {
  return {};
}

void check_perf_peers(const PerfOptions&) {
  throw UsageError("--peers: this command was built without the benchmarks (KEEL_BUILD_BENCH)");
}

bool run_perf_peers(const PerfOptions&) {
  return false;
}

}  // namespace keel::cli
