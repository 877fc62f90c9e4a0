// SPDX-License-Identifier: Apache-2.0
// `keel perf --peers`: compares Keel with peer libraries, round by round. Each library has its own
// program (bench/peers/), and the program starts the ranks.
#ifndef KEEL_TOOLS_PERF_PERF_PEERS_H_
#define KEEL_TOOLS_PERF_PERF_PEERS_H_

#include <string>
#include <vector>

#include "tools/perf/perf_options.h"

namespace keel::cli {

// Returns the libraries that --peers accepts; empty in builds without the benchmarks.
std::vector<std::string> perf_peer_names();

// Throws UsageError, naming the option, for requests unsupported by the peers' programs.
void check_perf_peers(const PerfOptions& options);

// Prints a table per operation. An absent or failed peer leaves gaps, with the reason printed.
// Returns false if Keel failed or had a wrong result.
bool run_perf_peers(const PerfOptions& options);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_PEERS_H_
