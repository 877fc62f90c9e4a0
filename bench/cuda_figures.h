// What the figures of the CUDA backend have in common.
#ifndef KEEL_BENCH_CUDA_FIGURES_H_
#define KEEL_BENCH_CUDA_FIGURES_H_

#include <functional>
#include <keel/keel.hpp>
#include <string>
#include <vector>

#include "bench/figures.h"

namespace keel::bench {

struct CudaFigure {
  std::string name;
  std::function<Figure(const std::string& name, Setup& setup)> take;
};

// Takes each. Without a GPU all are skipped; one that throws is a failed figure, and the others
// are taken all the same: the machine may be there for ten minutes only.
std::vector<Figure> take_cuda_figures(Setup& setup, const std::vector<CudaFigure>& figures);

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
