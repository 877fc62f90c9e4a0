// SPDX-License-Identifier: Apache-2.0
// `keel perf --peers`: Keel beside other libraries, round by round, each a program of its own
// (bench/peers/) that starts its ranks itself.
#ifndef KEEL_CLI_PERF_PEERS_H_
#define KEEL_CLI_PERF_PEERS_H_

#include <string>
#include <vector>

#include "cli/perf_options.h"

namespace keel::cli {

// Those that --peers knows; none where this command was built without the benchmarks.
std::vector<std::string> perf_peer_names();

// What such programs cannot do. UsageError names the option.
void check_perf_peers(const PerfOptions& options);

// Prints a table an operation. A peer that is not here, or fails, leaves gaps, and why is told;
// false where Keel failed, or had a wrong result.
bool run_perf_peers(const PerfOptions& options);

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_PEERS_H_
