// SPDX-License-Identifier: Apache-2.0
// The complete result of a run on a GPU (packaging/gpu.sh), as a JSON file and a table.
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
  std::string reason;  // why the step failed or was skipped
  // The JSON written by the step's program; null if absent or incomplete. For conformance only the
  // cases that neither passed nor are unsupported; for all remaining steps everything.
  std::shared_ptr<const nlohmann::ordered_json> result;
};

struct GpuRun {
  std::string date;       // UTC, ISO 8601
  bool emulated = false;  // with Keel's emulated vendor libraries: no result describes a chip
  bool quick = false;     // on sizes too small for a measurement
  std::vector<std::pair<std::string, std::string>> facts;  // about the machine: "driver_version"
  std::vector<GpuStep> steps;
};

// Reads the steps' files in |folder|: facts.tsv (name and value per line), steps.tsv (name,
// outcome, seconds and reason per line) and NAME.json for steps with a JSON result. Throws if
// steps.tsv cannot be read.
GpuRun read_gpu_run(const std::filesystem::path& folder);

// "format": 1. docs/results/README.md describes the members.
std::string to_json(const GpuRun& run);
std::string to_markdown(const GpuRun& run);

}  // namespace keel::bench

#endif  // KEEL_BENCH_GPU_REPORT_H_
