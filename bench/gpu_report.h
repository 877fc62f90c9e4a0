// SPDX-License-Identifier: Apache-2.0
// All that one run on a GPU has to say (packaging/gpu.sh), in one JSON file and one table.
#ifndef KEEL_BENCH_GPU_REPORT_H_
#define KEEL_BENCH_GPU_REPORT_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace keel::bench {

struct GpuStep {
  std::string name;     // "conform-cuda", "figures"
  std::string outcome;  // "passed", "failed" or "skipped"
  uint32_t seconds = 0;
  std::string reason;  // why it failed or was skipped
  // What its program wrote as JSON: null where there is nothing, or nothing whole. Of conformance
  // the cases that neither passed nor are unsupported, of others all.
  std::shared_ptr<const nlohmann::ordered_json> result;
};

struct GpuRun {
  std::string date;       // UTC, ISO 8601
  bool emulated = false;  // vendors' libraries are Keel's own: nothing is said of a chip
  bool quick = false;     // on sizes that measure nothing
  std::vector<std::pair<std::string, std::string>> facts;  // of the machine: "driver_version"
  std::vector<GpuStep> steps;
};

// What the steps left in |folder|: facts.tsv, a name and a value a line; steps.tsv, name, outcome,
// seconds and reason a line; NAME.json of the steps that write one. Throws where steps.tsv cannot
// be read.
GpuRun read_gpu_run(const std::filesystem::path& folder);

// "format": 1. docs/results/README.md has the members.
std::string to_json(const GpuRun& run);
std::string to_markdown(const GpuRun& run);

}  // namespace keel::bench

#endif  // KEEL_BENCH_GPU_REPORT_H_
