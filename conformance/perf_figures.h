// SPDX-License-Identifier: Apache-2.0
// The figures that `keel conform perf` measures on a device, each with a roof of the same run.
#ifndef KEEL_CONFORMANCE_PERF_FIGURES_H_
#define KEEL_CONFORMANCE_PERF_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "conformance/environment.h"

namespace keel::conformance {

struct PerfSettings {
  uint64_t bytes = uint64_t{64} << 20;  // of copies, fills and operators, at most
  double seconds = 10;                  // approximate time for all figures together
  // Whether the plugin has the slot; nothing if unknown.
  std::optional<bool> has_event_wait;
};

enum class PerfUnit { kMicroseconds, kGigabytes, kGigaflops };
const char* unit_text(PerfUnit unit);  // "us", "GB/s", "GFLOP/s"

struct PerfFigure {
  std::string name;  // "copy/host_to_device/pinned"
  PerfUnit unit = PerfUnit::kMicroseconds;
  double value = 0;    // a median
  uint64_t bytes = 0;  // bytes moved per run; 0 if not meaningful
  // A rate to reach, or a latency to come near; empty if this run has nothing to compare with.
  std::string roof;
  double roof_value = 0;
  std::string hint;  // advice; empty unless the figure is far from its roof

  bool has_roof() const { return !roof.empty(); }
  double ratio() const { return value / roof_value; }
};

// Returns the advice on a slow wait, which depends on the presence of the slot event_wait.
std::string wait_hint(std::optional<bool> has_event_wait);

struct PerfLeftOut {
  std::string name;
  std::string reason;
};

struct PerfFigures {
  std::vector<PerfFigure> figures;
  std::vector<PerfLeftOut> left_out;
};

// Measures the device of |environment|. Throws CaseFailure if a call fails.
PerfFigures measure_figures(const Environment& environment, const PerfSettings& settings);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PERF_FIGURES_H_
