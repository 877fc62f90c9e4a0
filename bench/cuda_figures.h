// SPDX-License-Identifier: Apache-2.0
// What the figures of the CUDA backend have in common.
#ifndef KEEL_BENCH_CUDA_FIGURES_H_
#define KEEL_BENCH_CUDA_FIGURES_H_

#include <functional>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

// As many equal sets of tensors are gone through in turn, each far larger than a cache, so that
// none is still in it.
inline constexpr size_t kCudaSets = 3;

// Of one race.
struct CudaFigure {
  // With name, unit, target, subject, peer and limit, which are told of those that cannot be taken
  // too.
  std::vector<Figure> figures;
  // Adds |about| and |timings|, or leaves figures out.
  std::function<void(std::span<Figure> figures, Setup& setup)> take;
};

// Takes and publishes each that is wanted, or names it, as |setup| says. Without a GPU all are
// skipped; one that throws is a failed figure, and the others are taken all the same: the machine
// may be there for ten minutes only.
void take_cuda_figures(Setup& setup, std::vector<CudaFigure> figures);

void leave_out(std::span<Figure> figures, const std::string& why);

// Whether the device runs |call| by a kernel of its own, and not by the CPU's on staged copies.
bool has_own_kernel(const OpCall& call, Device device);
inline constexpr char kNoOwnKernel[] = "no operator of its own";

// Enqueues on a stream of Keel's, by the device's clock.
class StreamClock {
 public:
  explicit StreamClock(Stream& stream) : stream_(stream) {}
  // From the first to the last of what |enqueue| puts on the stream, in seconds. Waits.
  double seconds_of(const std::function<void()>& enqueue);

 private:
  Stream& stream_;
  Event start_ = Event(KEEL_EVENT_TIMING);
  Event end_ = Event(KEEL_EVENT_TIMING);
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CUDA_FIGURES_H_
