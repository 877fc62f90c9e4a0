#include "bench/cuda_figures.h"

#include <chrono>
#include <exception>

namespace keel::bench {

std::vector<Figure> take_cuda_figures(Setup& setup, const std::vector<CudaFigure>& figures) {
  const std::string missing = !setup.cuda                 ? setup.no_cuda
                              : setup.raw_cuda == nullptr ? setup.no_raw_cuda
                                                          : "";
  std::vector<Figure> taken;
  for (const CudaFigure& figure : figures) {
    if (!missing.empty()) {
      taken.push_back(Figure::skip(figure.name, missing));
      continue;
    }
    try {
      taken.push_back(figure.take(figure.name, setup));
    } catch (const std::exception& error) {
      taken.push_back(Figure::fail(figure.name, error.what()));
    }
  }
  return taken;
}

bool has_own_kernel(const OpCall& call, Device device) {
  try {
    return call.plan(device).fallback == 0;
  } catch (const Error& error) {
    if (error.status() == KEEL_UNSUPPORTED) return false;
    throw;
  }
}

double StreamClock::seconds_of(const std::function<void()>& enqueue) {
  start_.record(stream_);
  enqueue();
  end_.record(stream_);
  stream_.synchronize();
  return std::chrono::duration<double>(end_.elapsed_since(start_)).count();
}

}  // namespace keel::bench
