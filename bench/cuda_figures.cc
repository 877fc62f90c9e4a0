// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_figures.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace keel::bench {

namespace {

std::string reason_against_all(const Setup& setup) {
  if (!setup.cuda) return setup.no_cuda;
  if (setup.raw_cuda == nullptr) return setup.no_raw_cuda;
  if (std::chrono::steady_clock::now() >= setup.end) return "no time was left";
  return "";
}

}  // namespace

void leave_out(std::span<Figure> figures, const std::string& why) {
  for (Figure& figure : figures) figure.leave_out(why);
}

void take_cuda_figures(Setup& setup, std::vector<CudaFigure> figures) {
  const auto is_wanted = [&](const Figure& figure) { return setup.wants(figure.name); };
  for (CudaFigure& race : figures) {
    if (!std::ranges::any_of(race.figures, is_wanted)) continue;
    if (setup.only_names) {
      leave_out(race.figures, kNotReached);
    } else if (const std::string why = reason_against_all(setup); !why.empty()) {
      leave_out(race.figures, why);
    } else {
      try {
        race.take(race.figures, setup);
      } catch (const std::exception& error) {
        for (Figure& figure : race.figures) {
          if (figure.skipped.empty()) figure.give_up(error.what());
        }
      }
    }
    for (Figure& figure : race.figures) {
      figure.emulated = setup.emulated_cuda;
      if (is_wanted(figure)) setup.publish(std::move(figure));
    }
  }
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
