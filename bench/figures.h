// SPDX-License-Identifier: Apache-2.0
// The figures: each figure sets up contenders, races the contenders and reports.
#ifndef KEEL_BENCH_FIGURES_H_
#define KEEL_BENCH_FIGURES_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <keel/keel.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/cuda_torch.h"
#include "bench/harness.h"
#include "bench/raw_cuda.h"
#include "bench/raw_vulkan.h"
#include "bench/report.h"

namespace keel::bench {

// Returns whether |name|, of a figure or of a group of figures, contains one of |filters|, or
// whether a filter names a figure in the group. Without filters all are chosen.
inline bool is_chosen(const std::string& name, const std::vector<std::string>& filters) {
  const auto chooses = [&](const std::string& filter) {
    return name.find(filter) != std::string::npos || filter.starts_with(name + "/");
  };
  return filters.empty() || std::any_of(filters.begin(), filters.end(), chooses);
}

// The reason of figures left unmeasured because the run was killed earlier.
inline constexpr char kNotReached[] = "the run was ended before";

// The devices and libraries available on this machine, and the run's options.
struct Setup {
  RaceOptions race;
  std::optional<Device> cpu;
  std::optional<Device> vulkan;
  std::string no_cpu;  // why |cpu| is absent
  std::string no_vulkan;
  std::unique_ptr<RawVulkan> raw_vulkan;
  std::string no_raw_vulkan;
  std::optional<Device> cuda;
  std::string no_cuda;
  std::unique_ptr<RawCuda> raw_cuda;
  std::string no_raw_cuda;
  bool emulated_cuda = false;  // Keel's emulated chip: the times are not a GPU's
  std::unique_ptr<CudaTorch> cuda_torch;
  bool quick = false;                // small sizes, only to test that figures can be measured
  std::vector<std::string> filters;  // from the command line

  // CUDA figures are published as left out and not measured.
  bool only_names = false;
  // No CUDA figure starts after this time.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  // Receives each figure as soon as measured: an interrupted run keeps all figures so far.
  std::function<void(Figure figure)> publish;

  // Slow figures check this before they measure.
  bool wants(const std::string& figure) const { return is_chosen(figure, filters); }
};

// If |setup| lacks a device or library, the result is a skipped figure with the reason. A failure
// throws or returns a failed figure. CUDA figures are published through |setup.publish| and return
// an empty vector.
using FigureFunction = std::vector<Figure> (*)(Setup& setup);

std::vector<Figure> vulkan_dispatch(Setup& setup);
std::vector<Figure> vulkan_matmul(Setup& setup);
std::vector<Figure> cpu_matmul(Setup& setup);
std::vector<Figure> bridge_all_reduce(Setup& setup);
std::vector<Figure> bridge_exchange(Setup& setup);
std::vector<Figure> collective_priority(Setup& setup);
std::vector<Figure> collective_start(Setup& setup);
std::vector<Figure> collective_idle(Setup& setup);
std::vector<Figure> collective_failure(Setup& setup);
std::vector<Figure> collective_recording(Setup& setup);
std::vector<Figure> copy_cross(Setup& setup);
std::vector<Figure> core_stream_handoff(Setup& setup);
std::vector<Figure> core_alloc(Setup& setup);
std::vector<Figure> core_alloc_traces(Setup& setup);
std::vector<Figure> core_cross_copy(Setup& setup);
std::vector<Figure> core_overhead(Setup& setup);
std::vector<Figure> emulated_overhead(Setup& setup);
std::vector<Figure> core_gates(Setup& setup);
std::vector<Figure> core_first_operation(Setup& setup);
std::vector<Figure> core_trace(Setup& setup);
std::vector<Figure> ops_matmul(Setup& setup);
std::vector<Figure> ops_matmul_packed(Setup& setup);
std::vector<Figure> ops_memory(Setup& setup);
std::vector<Figure> ops_attention(Setup& setup);
std::vector<Figure> ops_call(Setup& setup);
std::vector<Figure> cuda_calls(Setup& setup);
std::vector<Figure> cuda_operators(Setup& setup);
std::vector<Figure> cuda_matmul(Setup& setup);
std::vector<Figure> cuda_bridge(Setup& setup);
std::vector<Figure> cuda_vulkan_matmul(Setup& setup);

}  // namespace keel::bench

#endif  // KEEL_BENCH_FIGURES_H_
