// SPDX-License-Identifier: Apache-2.0
// Output of `keel perf`: a table with nccl-tests' columns, and JSON.
#ifndef KEEL_TOOLS_PERF_PERF_REPORT_H_
#define KEEL_TOOLS_PERF_PERF_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/perf/perf_operation.h"
#include "tools/perf/perf_options.h"

namespace keel::cli {

struct PerfTiming {
  double seconds = 0;              // per operation, on the slowest thread
  double algorithm_bandwidth = 0;  // GB/s, as nccl-tests counts
  double bus_bandwidth = 0;
  std::optional<uint64_t> wrong;  // elements over all ranks; nothing if not verified
};

struct PerfRow {
  uint64_t bytes = 0;  // of the larger buffer
  uint64_t count = 0;
  keel_dtype dtype = KEEL_FLOAT32;
  std::optional<keel_reduction> reduction;
  std::optional<uint32_t> root;
  std::optional<PerfTiming> out_of_place;
  std::optional<PerfTiming> in_place;
};

struct PerfRankInfo {
  uint32_t rank = 0;
  int pid = 0;
  std::string host;
  std::string device;  // "cpu:0"
  std::string name;    // the vendor's name
};

// Formats like nccl-tests: two decimals, fewer if they would not fit |width|.
std::string perf_number(double value, size_t width);
std::string perf_row_text(const PerfRow& row);

// Not thread-safe.
class PerfReport {
 public:
  PerfReport(const PerfOptions& options, std::vector<PerfRankInfo> ranks);

  // Prints the lines before the first table.
  void print_start() const;
  void begin(const PerfOperation& operation);
  void add(const PerfRow& row);
  void end();

  // Returns the number of rows with wrong elements so far.
  uint64_t wrong_rows() const { return all_wrong_rows_; }
  Json json() const;

 private:
  const PerfOptions& options_;
  std::vector<PerfRankInfo> ranks_;
  std::string operation_;
  std::vector<double> bandwidths_;  // of this operation's timings
  uint64_t wrong_rows_ = 0;
  uint64_t all_wrong_rows_ = 0;
  std::vector<double> all_bandwidths_;
  Json results_ = Json::array();
};

}  // namespace keel::cli

#endif  // KEEL_TOOLS_PERF_PERF_REPORT_H_
