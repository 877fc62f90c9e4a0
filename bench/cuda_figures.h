// SPDX-License-Identifier: Apache-2.0
// Shared helpers of the CUDA figures.
#ifndef KEEL_BENCH_CUDA_FIGURES_H_
#define KEEL_BENCH_CUDA_FIGURES_H_

#include <functional>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

// Number of equal sets of tensors that runs cycle through. Each set is far larger than a cache, so
// no run finds its tensors cached.
inline constexpr size_t kCudaSets = 3;

// The figures of one race.
struct CudaFigure {
  // name, unit, target, subject, peer and limit are set: they are reported for skipped figures too.
  std::vector<Figure> figures;
  // Fills |about| and |timings|, or marks figures as left out.
  std::function<void(std::span<Figure> figures, Setup& setup)> take;
};

// Measures and publishes the figures that |setup| selects, or only publishes their names if |setup|
// asks for names only. Without a GPU all are skipped. An exception makes its figure a failed one
// and the next figures are still measured, because the machine may be available for ten minutes
// only.
void take_cuda_figures(Setup& setup, std::vector<CudaFigure> figures);

void leave_out(std::span<Figure> figures, const std::string& why);

// Returns whether the device runs |call| with a kernel of its own, rather than with the CPU's
// kernel on staged copies.
bool has_own_kernel(const OpCall& call, Device device);
inline constexpr char kNoOwnKernel[] = "no operator of its own";

// Times work enqueued on a Keel stream by the device's clock.
class StreamClock {
 public:
  explicit StreamClock(Stream& stream) : stream_(stream) {}
  // Returns the seconds from the start to the end of the work that |enqueue| puts on the stream.
  // Blocks until the work is done.
  double seconds_of(const std::function<void()>& enqueue);

 private:
  Stream& stream_;
  Event start_ = Event(KEEL_EVENT_TIMING);
  Event end_ = Event(KEEL_EVENT_TIMING);
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CUDA_FIGURES_H_
