// SPDX-License-Identifier: Apache-2.0
// PyTorch on the GPU, in the same races as Keel: one process for all figures of a run, which the
// first that asks for it starts.
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

// What PyTorch is to do in a race.
struct TorchWork {
  std::string operator_name;
  std::string shape;
  std::string dtype;
  double work;  // of one run, as of Keel's
};

class CudaTorch {
 public:
  // On an emulated GPU, which PyTorch knows nothing of, it is on the CPU: so much can be tried.
  explicit CudaTorch(bool emulated) : emulated_(emulated) {}

  // A figure of |mode| against PyTorch: "eager", "compile" or "fused", by the name of a contender.
  static std::string contender(const std::string& mode) { return "PyTorch, " + mode; }

  // Races |own| and PyTorch in each mode that one of |figures| has for its peer; those of the modes
  // that are not to be had are left out, with the reason. Gives the others their timings.
  void race(std::span<const Contender> own, const TorchWork& work, std::span<Figure> figures,
            const RaceOptions& options);

  // "PyTorch 2.6.0, CUDA 12.4"; "PyTorch" where there is none.
  std::string describe() const { return peer_ == nullptr ? "PyTorch" : peer_->name(); }
  // The same, or why there is none; empty before anybody asked for it.
  std::string status() const { return peer_ == nullptr ? missing_ : peer_->name(); }

 private:
  struct Failure;  // of PyTorch, in the middle of a race

  // Empty where there is such a mode.
  std::string reason_against(const std::string& mode);
  void start();
  // A run that is not timed: what it says where it fails.
  std::string try_out(const TorchWork& work, const std::string& mode);
  double seconds(const TorchWork& work, const std::string& mode, uint64_t repetitions);

  const bool emulated_;
  bool started_ = false;
  std::unique_ptr<TorchPeer> peer_;
  std::string missing_;                         // why there is no process
  std::map<std::string, std::string> reasons_;  // of modes: why not, or empty
};

}  // namespace keel::bench

#endif  // KEEL_BENCH_CUDA_TORCH_H_
