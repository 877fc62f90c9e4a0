// SPDX-License-Identifier: Apache-2.0
// `keel perf --peers`: compares Keel with other libraries, round by round. Each library has its own
// program (bench/peers/), which starts its ranks itself.
#ifndef KEEL_CLI_PERF_PEERS_H_
#define KEEL_CLI_PERF_PEERS_H_

#include <string>
#include <vector>

#include "cli/perf_options.h"

namespace keel::cli {

// Returns the libraries that --peers accepts; none in builds without the benchmarks.
std::vector<std::string> perf_peer_names();

// Throws UsageError, naming the option, for requests that the peers' programs do not support.
void check_perf_peers(const PerfOptions& options);

// Prints one table per operation. A peer that is absent or fails leaves gaps, with the reason
// printed. Returns false if Keel failed or had a wrong result.
bool run_perf_peers(const PerfOptions& options);

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_PEERS_H_
