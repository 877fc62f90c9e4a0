// SPDX-License-Identifier: Apache-2.0
// The options of `keel perf`, named as in nccl-tests.
#ifndef KEEL_TOOLS_PERF_PERF_OPTIONS_H_
#define KEEL_TOOLS_PERF_PERF_OPTIONS_H_

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
  uint32_t check = 1;  // verifications of each result
  std::vector<keel_dtype> dtypes = {KEEL_FLOAT32};
  std::vector<keel_reduction> reductions = {KEEL_SUM};
  int64_t root = 0;  // -1: every rank in turn
  uint32_t threads = 1;
  uint32_t devices_per_thread = 1;
  uint32_t processes = 1;
  std::vector<std::string> devices;  // of the ranks, round robin; empty: the first device
  std::string output_file;           // empty: none
  bool sync_each = false;
  bool foreign = false;
  bool explain = false;
  std::string svg;  // file for a picture of the ring; empty: none
  bool tune = false;
  int64_t timeout_ns = KEEL_TIMEOUT_DEFAULT;
  std::vector<std::string> peers;  // libraries to compare with; empty: only Keel
  std::string peer_programs;       // folder of the peers' programs; empty: the installed ones
  uint32_t rounds = 3;             // launches of each peer
  bool iterations_given = false;   // else the peers' loops run for a time, not a count
  bool ranks_given = false;  // devices_per_thread is given; else fit_ranks_to_devices() sets it

  uint32_t ranks_per_process() const { return threads * devices_per_thread; }
  uint32_t world() const { return processes * ranks_per_process(); }
  // Returns the requested sizes in ascending order.
  std::vector<uint64_t> sizes() const;
};

// Parses "8", "1.5K", "64M", "1G" in units of 1,024. Returns false for other texts and leaves
// |*out| unchanged.
bool parse_size(const std::string& text, uint64_t* out);
// Accepts nccl-tests' names ("float", "half") and Keel's ("float32"); returns false for others.
bool parse_dtype(const std::string& name, keel_dtype* out);
// Accepts nccl-tests' names ("sum", "mulsum") and Keel's ("premul_sum"); returns false for others.
bool parse_reduction(const std::string& name, keel_reduction* out);
// Return nccl-tests' names.
const char* perf_dtype_name(keel_dtype dtype);
const char* perf_reduction_name(keel_reduction reduction);

// Adds the options to |command|. |options| is filled in before the command's callback runs.
void add_perf_options(CLI::App& command, const std::shared_ptr<PerfOptions>& options);
// Sets devices_per_thread, unless -g is given, so that every named device takes part. Call once
// |processes| is known. If there are more ranks than devices, devices are assigned round robin.
// Throws UsageError if a device would stay unused.
void fit_ranks_to_devices(PerfOptions* options);
// Checks what the parser cannot. Throws UsageError, which names the option.
void check_perf_options(const PerfOptions& options);

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_OPTIONS_H_
