// SPDX-License-Identifier: Apache-2.0
// PyTorch on the GPU, in the same races as Keel. A single process serves all figures of a run; the
// first figure that needs PyTorch starts the process.
#ifndef KEEL_BENCH_CUDA_TORCH_H_
#define KEEL_BENCH_CUDA_TORCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "bench/torch_peer.h"

namespace keel::bench {

struct Figure;

// PyTorch's work in a race.
struct TorchWork {
  std::string operator_name;
  std::string shape;
  std::string dtype;
  double work;  // of one run, as of Keel's
};

class CudaTorch {
 public:
  // PyTorch cannot use an emulated GPU and then runs on the CPU, so the code path is still tested.
  explicit CudaTorch(bool emulated) : emulated_(emulated) {}

  // Returns the contender's name of |mode|: "eager", "compile" or "fused".
  static std::string contender(const std::string& mode) { return "PyTorch, " + mode; }

  // Races |own| and PyTorch in each mode that a figure names as its peer. Figures whose mode is
  // unavailable are left out with the reason; all remaining figures receive the timings.
  void race(std::span<const Contender> own, const TorchWork& work, std::span<Figure> figures,
            const RaceOptions& options);

  // Returns "PyTorch 2.6.0, CUDA 12.4"; "PyTorch" without a process.
  std::string describe() const { return peer_ == nullptr ? "PyTorch" : peer_->name(); }
  // Returns the same name, or why there is no process; empty before the first race.
  std::string status() const { return peer_ == nullptr ? missing_ : peer_->name(); }

 private:
  struct Failure;  // PyTorch failed during a race

  // Returns why |mode| is unavailable; empty if it is available.
  std::string reason_against(const std::string& mode);
  void start();
  // Makes an untimed run. Returns PyTorch's message on failure, else an empty string.
  std::string try_out(const TorchWork& work, const std::string& mode);
  double seconds(const TorchWork& work, const std::string& mode, uint64_t repetitions);

  const bool emulated_;
  bool started_ = false;
  std::unique_ptr<TorchPeer> peer_;
  std::string missing_;                         // why there is no process
  std::map<std::string, std::string> reasons_;  // by mode: why unavailable, or empty
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CUDA_TORCH_H_
