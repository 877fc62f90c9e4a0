// SPDX-License-Identifier: Apache-2.0
// The figures: each sets up its contenders, has them race and reports.
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

// Whether |name|, of a figure or of several, contains one of |filters|, or has one that a filter
// names. Without filters all are chosen.
inline bool is_chosen(const std::string& name, const std::vector<std::string>& filters) {
  const auto chooses = [&](const std::string& filter) {
    return name.find(filter) != std::string::npos || filter.starts_with(name + "/");
  };
  return filters.empty() || std::any_of(filters.begin(), filters.end(), chooses);
}

// Of a figure, where whoever takes them is killed before it.
inline constexpr char kNotReached[] = "the run was ended before";

// What this machine has to offer.
struct Setup {
  RaceOptions race;
  std::optional<Device> cpu;
  std::optional<Device> vulkan;
  std::string no_cpu;  // why not
  std::string no_vulkan;
  std::unique_ptr<RawVulkan> raw_vulkan;
  std::string no_raw_vulkan;
  std::optional<Device> cuda;
  std::string no_cuda;
  std::unique_ptr<RawCuda> raw_cuda;
  std::string no_raw_cuda;
  bool emulated_cuda = false;  // Keel's own emulated chip: its times are none of a GPU
  std::unique_ptr<CudaTorch> cuda_torch;
  bool quick = false;  // small sizes, where it is only to be seen that a figure can be taken
  std::vector<std::string> filters;  // of the command line

  // Figures of CUDA are published as left out, and not taken.
  bool only_names = false;
  // No figure of CUDA is begun after.
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
  // Where figures go one by one, so that who runs out of time has those of before.
  std::function<void(Figure figure)> publish;

  // Those that take long ask before.
  bool wants(const std::string& figure) const { return is_chosen(figure, filters); }
};

// What |setup| lacks gives a skipped figure with the reason; a failure is thrown, or a failed
// figure. Those of CUDA publish theirs, and return none.
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
