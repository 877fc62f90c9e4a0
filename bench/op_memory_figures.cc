// SPDX-License-Identifier: Apache-2.0
// Norms, softmax, losses, activations, the optimizer and conversions on the CPU device, which are
// bound by memory bandwidth: against PyTorch, and against memcpy of as many bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/copy_pass.h"
#include "bench/figures.h"
#include "bench/memory_operators.h"
#include "bench/op_tensors.h"
#include "bench/torch_peer.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kMean[] = "ops_memory/mean/torch";

// An operator compared with memcpy and PyTorch.
struct Operator {
  const char* name;
  keel_dtype dtype;
  // Whether traffic takes longer than arithmetic, so that bandwidth is the bound. If each element
  // of two bytes costs an exponential, both take about as long.
  bool memory_bound;
};

std::string figure_of(const Operator& op) {
  return fmt::format("ops_memory/{}/{}", op.name, name_of(op.dtype));
}

constexpr Operator kOperators[] = {
    {"layer_norm", KEEL_FLOAT32, true},    {"layer_norm_backward", KEEL_FLOAT32, true},
    {"rms_norm", KEEL_FLOAT32, true},      {"rms_norm_backward", KEEL_FLOAT32, true},
    {"softmax", KEEL_FLOAT32, true},       {"softmax_backward", KEEL_FLOAT32, true},
    {"cross_entropy", KEEL_FLOAT32, true}, {"cross_entropy_backward", KEEL_FLOAT32, true},
    {"gelu", KEEL_FLOAT32, true},          {"gelu_backward", KEEL_FLOAT32, true},
    {"swiglu", KEEL_FLOAT32, true},        {"swiglu_backward", KEEL_FLOAT32, true},
    {"adamw", KEEL_FLOAT32, true},         {"cast", KEEL_FLOAT32, true},
    {"layer_norm", KEEL_BFLOAT16, true},   {"layer_norm_backward", KEEL_BFLOAT16, true},
    {"softmax", KEEL_BFLOAT16, false},     {"softmax_backward", KEEL_BFLOAT16, true},
    {"swiglu", KEEL_BFLOAT16, false},      {"swiglu_backward", KEEL_BFLOAT16, false},
    {"cast", KEEL_BFLOAT16, true},
};

class Comparison {
 public:
  Comparison(const Setup& setup)
      : setup_(setup),
        tensor_bytes_(setup.quick ? 1 << 18 : 64 << 20),
        cores_(setup.cpu->info().compute_units),
        copy_(cores_, /*pair_bytes=*/static_cast<uint64_t>(2 * tensor_bytes_)) {
    // A set of a loss, which writes almost nothing, is one tensor.
    const uint64_t wanted = 4 * cache_bytes() / static_cast<uint64_t>(tensor_bytes_);
    sets_ = setup.quick ? 2 : std::clamp<uint64_t>(wanted, 2, 16);
    TorchOptions options;
    options.threads = cores_;
    options.sets = static_cast<uint32_t>(sets_);
    torch_ = TorchPeer::start(options, &no_torch_);
  }

  const TorchPeer* torch() const { return torch_.get(); }
  const std::string& no_torch() const { return no_torch_; }

  // Measures against memcpy and, if present, against PyTorch.
  std::vector<Figure> take(const Operator& op) {
    const MemoryOperator& memory = memory_operator(op.name);
    const Extents extents = memory.extents(op.dtype, tensor_bytes_);
    const std::string dtype = name_of(op.dtype);
    const std::string name = figure_of(op);
    const double bytes = memory.bytes(op.dtype, extents);
    OpRotation keel(*setup_.cpu, sets_,
                    [&](OpTensors& tensors) { return memory.make(tensors, op.dtype, extents); });

    std::vector<Contender> contenders;
    contenders.push_back({kKeel, bytes, /*run=*/nullptr, [&](uint64_t repetitions) {
                            const auto start = std::chrono::steady_clock::now();
                            keel.run(repetitions);
                            const auto end = std::chrono::steady_clock::now();
                            return std::chrono::duration<double>(end - start).count();
                          }});
    contenders.push_back({copy_.name(), bytes, [&] { copy_.move(static_cast<uint64_t>(bytes)); }});
    if (torch_) {
      contenders.push_back({torch_->name(), bytes, /*run=*/nullptr, [&](uint64_t repetitions) {
                              return torch_->run(op.name, extents.text(), dtype, "eager",
                                                 repetitions);
                            }});
    }
    RaceOptions options = setup_.race;
    options.enough = std::chrono::seconds(4);

    Figure bound;
    bound.name = name + "/bound";
    bound.about = fmt::format(
        "keel_op_run of {} on [{},{}] of {}, {} sets of tensors in turn, counted as the bytes that "
        "have to be read and written, against memcpy counted so too.",
        op.name, extents.rows, extents.columns, dtype, sets_);
    bound.unit = Unit::kGigabytes;
    bound.timings = race(contenders, options);
    bound.subject = kKeel;
    bound.peer = bound.limit = copy_.name();
    if (op.memory_bound) bound.target = Target{0.80};
    if (!torch_) return {bound};
    Figure against = bound;
    against.name = name + "/torch";
    against.about =
        fmt::format("the same against PyTorch on as many threads ({}), in the same run.", cores_);
    against.peer = torch_->name();
    against.target.reset();
    return {bound, against};
  }

 private:
  const Setup& setup_;
  const int64_t tensor_bytes_;  // for any dtype
  const uint32_t cores_;
  CopyPass copy_;
  uint64_t sets_ = 2;
  std::unique_ptr<TorchPeer> torch_;
  std::string no_torch_;
};

// Combines all operators against PyTorch.
Figure mean_of(const std::vector<Figure>& figures, const std::string& torch) {
  constexpr char kLimit[] = "memcpy";
  std::vector<const Timings*> subjects, peers, limits;
  for (const Figure& figure : figures) {
    if (figure.peer != torch) continue;
    subjects.push_back(&figure.find(figure.subject));
    peers.push_back(&figure.find(figure.peer));
    limits.push_back(&figure.find(figure.limit));
  }
  if (subjects.empty()) return Figure::skip(kMean, "none of the operators was taken");
  Figure mean;
  mean.name = kMean;
  mean.about = fmt::format("the geometric mean over {} operators.", subjects.size());
  mean.unit = Unit::kGigabytes;
  mean.timings = {geometric_mean(kKeel, subjects), geometric_mean(torch, peers),
                  geometric_mean(kLimit, limits)};
  mean.subject = kKeel;
  mean.peer = torch;
  mean.limit = kLimit;
  mean.target = Target{1.3};
  return mean;
}

}  // namespace

std::vector<Figure> ops_memory(Setup& setup) {
  if (!setup.cpu) return {Figure::skip("ops_memory", setup.no_cpu)};
  Comparison comparison(setup);
  std::vector<Figure> figures;
  for (const Operator& op : kOperators) {
    if (!setup.wants(figure_of(op))) continue;
    try {
      for (Figure& figure : comparison.take(op)) figures.push_back(std::move(figure));
    } catch (const std::exception& error) {  // also of PyTorch's process
      figures.push_back(Figure::fail(figure_of(op), error.what()));
    }
  }
  figures.push_back(comparison.torch() == nullptr ? Figure::skip(kMean, comparison.no_torch())
                                                  : mean_of(figures, comparison.torch()->name()));
  return figures;
}

}  // namespace keel::bench
