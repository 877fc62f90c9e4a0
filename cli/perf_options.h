// SPDX-License-Identifier: Apache-2.0
// The options of `keel perf`, named as those of nccl-tests are.
#ifndef KEEL_CLI_PERF_OPTIONS_H_
#define KEEL_CLI_PERF_OPTIONS_H_

#include <keel/keel.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace keel::cli {

struct PerfOptions {
  std::vector<std::string> plugins;
  std::string operation;  // a name, or "all"
  uint64_t min_bytes = 32ull << 20;
  uint64_t max_bytes = 32ull << 20;
  uint64_t step_bytes = 1ull << 20;
  uint64_t step_factor = 1;  // > 1: instead of step_bytes
  uint32_t iterations = 20;
  uint32_t warmup_iterations = 5;
  uint32_t check = 1;  // times each result is verified
  std::vector<keel_dtype> dtypes = {KEEL_FLOAT32};
  std::vector<keel_reduction> reductions = {KEEL_SUM};
  int64_t root = 0;  // -1: each in turn
  uint32_t threads = 1;
  uint32_t devices_per_thread = 1;
  uint32_t processes = 1;
  std::vector<std::string> devices;  // of the ranks, round robin; empty: the first there is
  std::string output_file;           // empty: none
  bool sync_each = false;
  bool foreign = false;
  bool explain = false;
  bool tune = false;
  int64_t timeout_ns = KEEL_TIMEOUT_DEFAULT;
  std::vector<std::string> peers;  // libraries beside Keel; empty: Keel alone
  std::string peer_programs;       // the folder of their programs; empty: where they are installed
  uint32_t rounds = 3;             // launches of each of them
  bool iterations_given = false;   // else the peers' loops take a time, not a number
  bool ranks_given = false;        // devices_per_thread; else as many as make all devices take part

  uint32_t ranks_per_process() const { return threads * devices_per_thread; }
  uint32_t world() const { return processes * ranks_per_process(); }
  // From the smallest on, as asked.
  std::vector<uint64_t> sizes() const;
};

// "8", "1.5K", "64M", "1G", of 1,024 each. False, and nothing written, for other texts.
bool parse_size(const std::string& text, uint64_t* out);
// nccl-tests' names ("float", "half") and Keel's ("float32"); false for others.
bool parse_dtype(const std::string& name, keel_dtype* out);
// nccl-tests' ("sum", "mulsum") and Keel's ("premul_sum").
bool parse_reduction(const std::string& name, keel_reduction* out);
// nccl-tests' names.
const char* perf_dtype_name(keel_dtype dtype);
const char* perf_reduction_name(keel_reduction reduction);

// Adds them to |command|. |options| is filled in by the time the command is run.
void add_perf_options(CLI::App& command, const std::shared_ptr<PerfOptions>& options);
// As many ranks a thread as make each of the devices that are named take part, unless -g says how
// many, once |processes| is known. More ranks than devices are dealt them round robin. UsageError
// where a device would be left out.
void fit_ranks_to_devices(PerfOptions* options);
// What the parser cannot see. UsageError names the option.
void check_perf_options(const PerfOptions& options);

}  // namespace keel::cli

#endif  // KEEL_CLI_PERF_OPTIONS_H_
