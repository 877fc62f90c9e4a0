// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda_torch.h"

#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "bench/cuda_figures.h"

namespace keel::bench {

struct CudaTorch::Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace {

constexpr const char* kModes[] = {"eager", "compile", "fused"};

// Returns the mode that the figure names as its peer; null for figures against other peers.
const char* mode_of(const Figure& figure) {
  for (const char* mode : kModes) {
    if (figure.peer == CudaTorch::contender(mode)) return mode;
  }
  return nullptr;
}

}  // namespace

void CudaTorch::start() {
  started_ = true;
  const char* const folder = std::getenv("KEEL_CUDA_LIBRARY_FOLDER");
  if (!emulated_ && folder != nullptr && *folder != '\0') {
    missing_ = "PyTorch opens the system's driver, not that of KEEL_CUDA_LIBRARY_FOLDER";
    return;
  }
  TorchOptions options;
  options.device = emulated_ ? "cpu" : "cuda:0";
  options.sets = kCudaSets;
  peer_ = TorchPeer::start(options, &missing_);
}

std::string CudaTorch::reason_against(const std::string& mode) {
  if (!started_) start();
  if (peer_ == nullptr) return missing_;
  const auto known = reasons_.find(mode);
  if (known != reasons_.end()) return known->second;
  std::string why;
  if (mode != "eager") peer_->can(mode, &why);
  return reasons_[mode] = why;
}

double CudaTorch::seconds(const TorchWork& work, const std::string& mode, uint64_t repetitions) {
  try {
    return peer_->run(work.operator_name, work.shape, work.dtype, mode, repetitions);
  } catch (const std::exception& error) {
    throw Failure(error.what());
  }
}

std::string CudaTorch::try_out(const TorchWork& work, const std::string& mode) {
  try {
    const std::string why = reason_against(mode);
    if (why.empty()) seconds(work, mode, /*repetitions=*/1);
    return why;
  } catch (const std::exception& error) {
    if (peer_ != nullptr && !peer_->answers()) {
      missing_ = error.what();
      peer_ = nullptr;
    }
    return error.what();
  }
}

void CudaTorch::race(std::span<const Contender> own, const TorchWork& work,
                     std::span<Figure> figures, const RaceOptions& options) {
  std::vector<Contender> contenders(own.begin(), own.end());
  for (Figure& figure : figures) {
    const char* const mode = mode_of(figure);
    if (mode == nullptr || !figure.skipped.empty()) continue;
    if (const std::string why = try_out(work, mode); !why.empty()) {
      figure.leave_out(why);
      continue;
    }
    contenders.push_back(
        {contender(mode), work.work, /*run=*/nullptr,
         [this, &work, mode](uint64_t repetitions) { return seconds(work, mode, repetitions); }});
  }
  std::vector<Timings> timings;
  try {
    timings = bench::race(contenders, options);
  } catch (const Failure& failure) {
    // Figures against other peers are still measured.
    for (Figure& figure : figures) {
      if (mode_of(figure) != nullptr && figure.skipped.empty()) figure.leave_out(failure.what());
    }
    if (peer_ != nullptr && !peer_->answers()) {
      missing_ = failure.what();
      peer_ = nullptr;
    }
    timings = bench::race(own, options);
  }
  for (Figure& figure : figures) {
    if (figure.skipped.empty()) figure.timings = timings;
  }
}

}  // namespace keel::bench
