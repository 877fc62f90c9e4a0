// Norms, softmax, losses, activations, the optimizer and conversions on the CPU device, which do
// little but read and write memory: against PyTorch, and against memcpy of as many bytes.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "bench/copy_pass.h"
#include "bench/figures.h"
#include "bench/op_tensors.h"
#include "bench/torch_peer.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kMean[] = "ops_memory/mean/torch";

// The extents that an operator's tensors are made of.
struct Extents {
  int64_t rows;
  int64_t columns;
};

// The tensors of an operator's extents have 64 MiB, whatever their dtype.
struct Sizes {
  explicit Sizes(bool quick) : bytes(quick ? 1 << 18 : 64 << 20) {}
  int64_t bytes;

  Extents with_columns(int64_t columns, int64_t element_size) const {
    return {bytes / element_size / columns, columns};
  }
};

// How a call of an operator is made, and what it has to read and write: |streams| tensors of
// |extents|, besides what is small beside them.
struct Operator {
  const char* name;
  keel_dtype dtype;
  int64_t columns;
  double streams;
  // Whether its arithmetic takes less time than its traffic, so that the traffic is what it should
  // be bound by. Where each element costs an exponential and has but two bytes, both are alike.
  bool memory_bound;
  std::unique_ptr<OpCall> (*make)(OpTensors& tensors, keel_dtype dtype, Extents extents);
};

std::unique_ptr<OpCall> call(keel_op_id op, std::initializer_list<Operand> inputs,
                             std::initializer_list<Operand> outputs,
                             std::initializer_list<Attribute> attributes = {}) {
  return std::unique_ptr<OpCall>(new OpCall(op, inputs, outputs, attributes));
}

std::unique_ptr<OpCall> layer_norm(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const auto row = [&] { return tensors.uniform(dtype, {e.columns}); };
  const auto statistic = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_LAYER_NORM, {x(), row(), row()}, {x(), statistic(), statistic()}, {1e-5});
}

std::unique_ptr<OpCall> layer_norm_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const auto sum = [&] { return tensors.uniform(KEEL_FLOAT32, {e.columns}); };
  const auto statistic = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_LAYER_NORM_BACKWARD,
              {x(), x(), tensors.uniform(dtype, {e.columns}), statistic(), statistic()},
              {x(), sum(), sum()});
}

std::unique_ptr<OpCall> rms_norm(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_RMS_NORM, {x(), tensors.uniform(dtype, {e.columns})},
              {x(), tensors.uniform(KEEL_FLOAT32, {e.rows})}, {1e-5});
}

std::unique_ptr<OpCall> rms_norm_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(
      KEEL_OP_RMS_NORM_BACKWARD,
      {x(), x(), tensors.uniform(dtype, {e.columns}), tensors.uniform(KEEL_FLOAT32, {e.rows})},
      {x(), tensors.uniform(KEEL_FLOAT32, {e.columns})});
}

std::unique_ptr<OpCall> softmax(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_SOFTMAX, {x(), nullptr}, {x()}, {1.0, 0});
}

std::unique_ptr<OpCall> softmax_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_SOFTMAX_BACKWARD, {x(), x()}, {x()}, {1.0});
}

std::unique_ptr<OpCall> cross_entropy(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto row = [&] { return tensors.uniform(KEEL_FLOAT32, {e.rows}); };
  return call(KEEL_OP_CROSS_ENTROPY,
              {tensors.uniform(dtype, {e.rows, e.columns}), tensors.labels(e.rows, e.columns)},
              {row(), row()});
}

std::unique_ptr<OpCall> cross_entropy_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto logits = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_CROSS_ENTROPY_BACKWARD,
              {logits(), tensors.labels(e.rows, e.columns),
               tensors.uniform(KEEL_FLOAT32, {e.rows}, /*low=*/10, /*high=*/11)},
              {logits()}, {1.0 / static_cast<double>(e.rows)});
}

std::unique_ptr<OpCall> gelu(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_GELU, {x()}, {x()}, {/*form=*/0});
}

std::unique_ptr<OpCall> gelu_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  return call(KEEL_OP_GELU_BACKWARD, {x(), x()}, {x()}, {/*form=*/0});
}

std::unique_ptr<OpCall> swiglu(OpTensors& tensors, keel_dtype dtype, Extents e) {
  return call(KEEL_OP_SWIGLU, {tensors.uniform(dtype, {e.rows, 2 * e.columns})},
              {tensors.uniform(dtype, {e.rows, e.columns})});
}

std::unique_ptr<OpCall> swiglu_backward(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, 2 * e.columns}); };
  return call(KEEL_OP_SWIGLU_BACKWARD, {x(), tensors.uniform(dtype, {e.rows, e.columns})}, {x()});
}

// In place, as training does it.
std::unique_ptr<OpCall> adamw(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const auto x = [&] { return tensors.uniform(dtype, {e.rows, e.columns}); };
  const keel_tensor parameter = x();
  const keel_tensor mean = x();
  const keel_tensor variance = tensors.uniform(dtype, {e.rows, e.columns}, /*low=*/0.5);
  return call(KEEL_OP_ADAMW, {parameter, x(), mean, variance}, {parameter, mean, variance},
              {1e-3, 0.9, 0.999, 1e-8, 0.01, 2, 1.0});
}

std::unique_ptr<OpCall> cast(OpTensors& tensors, keel_dtype dtype, Extents e) {
  const keel_dtype to = dtype == KEEL_FLOAT32 ? KEEL_BFLOAT16 : KEEL_FLOAT32;
  return call(KEEL_OP_CAST, {tensors.uniform(dtype, {e.rows, e.columns})},
              {tensors.uniform(to, {e.rows, e.columns})});
}

constexpr int64_t kWidth = 1024;
constexpr int64_t kVocabulary = 32768;

const char* name_of(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ? "float32" : "bfloat16";
}

std::string figure_of(const Operator& op) {
  return fmt::format("ops_memory/{}/{}", op.name, name_of(op.dtype));
}

// The names are PyTorch's process's too.
constexpr Operator kOperators[] = {
    {"layer_norm", KEEL_FLOAT32, kWidth, 2, true, layer_norm},
    {"layer_norm_backward", KEEL_FLOAT32, kWidth, 3, true, layer_norm_backward},
    {"rms_norm", KEEL_FLOAT32, kWidth, 2, true, rms_norm},
    {"rms_norm_backward", KEEL_FLOAT32, kWidth, 3, true, rms_norm_backward},
    {"softmax", KEEL_FLOAT32, kWidth, 2, true, softmax},
    {"softmax_backward", KEEL_FLOAT32, kWidth, 3, true, softmax_backward},
    {"cross_entropy", KEEL_FLOAT32, kVocabulary, 1, true, cross_entropy},
    {"cross_entropy_backward", KEEL_FLOAT32, kVocabulary, 2, true, cross_entropy_backward},
    {"gelu", KEEL_FLOAT32, kWidth, 2, true, gelu},
    {"gelu_backward", KEEL_FLOAT32, kWidth, 3, true, gelu_backward},
    {"swiglu", KEEL_FLOAT32, kWidth, 3, true, swiglu},
    {"swiglu_backward", KEEL_FLOAT32, kWidth, 5, true, swiglu_backward},
    {"adamw", KEEL_FLOAT32, kWidth, 7, true, adamw},
    {"cast", KEEL_FLOAT32, kWidth, 1.5, true, cast},
    {"layer_norm", KEEL_BFLOAT16, kWidth, 2, true, layer_norm},
    {"layer_norm_backward", KEEL_BFLOAT16, kWidth, 3, true, layer_norm_backward},
    {"softmax", KEEL_BFLOAT16, kWidth, 2, false, softmax},
    {"softmax_backward", KEEL_BFLOAT16, kWidth, 3, true, softmax_backward},
    {"swiglu", KEEL_BFLOAT16, kWidth, 3, false, swiglu},
    {"swiglu_backward", KEEL_BFLOAT16, kWidth, 5, false, swiglu_backward},
    {"cast", KEEL_BFLOAT16, kWidth, 3, true, cast},
};

class Comparison {
 public:
  Comparison(const Setup& setup)
      : setup_(setup),
        sizes_(setup.quick),
        cores_(setup.cpu->info().compute_units),
        copy_(cores_, /*pair_bytes=*/static_cast<uint64_t>(2 * sizes_.bytes)) {
    // Of a loss, which writes next to nothing, a set has not more than that.
    const uint64_t wanted = 4 * cache_bytes() / static_cast<uint64_t>(sizes_.bytes);
    sets_ = setup.quick ? 2 : std::clamp<uint64_t>(wanted, 2, 16);
    torch_ = TorchPeer::start(cores_, static_cast<uint32_t>(sets_), &no_torch_);
  }

  const TorchPeer* torch() const { return torch_.get(); }
  const std::string& no_torch() const { return no_torch_; }

  // Against memcpy and, where it is there, against PyTorch.
  std::vector<Figure> take(const Operator& op) {
    const int64_t element_size = op.dtype == KEEL_FLOAT32 ? 4 : 2;
    const Extents extents = sizes_.with_columns(op.columns, element_size);
    const std::string dtype = name_of(op.dtype);
    const std::string name = figure_of(op);
    const std::string shape = fmt::format("{}x{}", extents.rows, extents.columns);
    const double bytes =
        op.streams * static_cast<double>(extents.rows * extents.columns * element_size);
    OpRotation keel(*setup_.cpu, sets_,
                    [&](OpTensors& tensors) { return op.make(tensors, op.dtype, extents); });

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
                              return torch_->run(op.name, shape, dtype, repetitions);
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
  const Sizes sizes_;
  const uint32_t cores_;
  CopyPass copy_;
  uint64_t sets_ = 2;
  std::unique_ptr<TorchPeer> torch_;
  std::string no_torch_;
};

// All operators against PyTorch.
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
    } catch (const std::exception& error) {  // of PyTorch's process too
      figures.push_back(Figure::fail(figure_of(op), error.what()));
    }
  }
  figures.push_back(comparison.torch() == nullptr ? Figure::skip(kMean, comparison.no_torch())
                                                  : mean_of(figures, comparison.torch()->name()));
  return figures;
}

}  // namespace keel::bench
