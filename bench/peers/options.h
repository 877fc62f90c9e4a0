// SPDX-License-Identifier: Apache-2.0
// The command line shared by all peers.
#ifndef KEEL_BENCH_PEERS_OPTIONS_H_
#define KEEL_BENCH_PEERS_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/peers/shape.h"

namespace keel::bench::peers {

// Mode says what ranks are: forked processes, threads, or processes of which a launcher started
// each.
enum class Mode { kProcesses, kThreads, kLaunched };

struct Options {
  std::vector<Operation> operations = {Operation::kAllReduce};  // --ops all_reduce,broadcast
  std::vector<uint64_t> bytes = {8};                            // --bytes 8,65536
  double seconds = 0.1;          // --seconds: of the timed loop of each operation and size
  uint64_t times = 0;            // --times: operations in that loop; 0: as many as fill |seconds|
  uint32_t warmup = 5;           // --warmup: operations right before the loop
  uint32_t deadline = 120;       // --deadline: seconds after which the process is killed
  uint32_t ranks = 2;            // --ranks; ignored by peers with a launcher
  Mode mode = Mode::kProcesses;  // --mode processes|threads|launched
  bool foreign = false;          // --buffers own|foreign: allocated by whom
  std::string interface;         // --interface: of the network; empty: loopback
  std::string meet;              // --meet: a folder that all launched ranks see
};

// Throws std::invalid_argument.
Options read_options(int argc, const char* const* argv);
// Makes the kernel end this process at the deadline, even in a blocking call.
void arm_deadline(const Options& options);

}  // namespace keel::bench::peers

#endif  // KEEL_BENCH_PEERS_OPTIONS_H_
