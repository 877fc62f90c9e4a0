// SPDX-License-Identifier: Apache-2.0
// Operators bound by memory bandwidth, and all_reduce over PCIe, against the driver's copies; the
// operators also against PyTorch.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/cuda_figures.h"
#include "bench/memory_operators.h"
#include "bench/reducing_ranks.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kCopy[] = "copy within the device";
constexpr char kBothWays[] = "copies of the driver, both ways";

// Size of a tensor: three sets are far larger than a cache.
int64_t tensor_bytes(const Setup& setup) {
  return setup.quick ? 1 << 18 : 128 << 20;
}

struct Operator {
  const char* name;
  keel_dtype dtype;
  bool has_torch;  // also compared with PyTorch
};

constexpr Operator kOperators[] = {
    {"layer_norm", KEEL_FLOAT32, true},
    {"rms_norm", KEEL_FLOAT32, true},
    {"softmax", KEEL_FLOAT32, true},
    {"cross_entropy", KEEL_FLOAT32, true},
    {"adamw", KEEL_FLOAT32, true},
    {"cast", KEEL_FLOAT32, true},
    {"embedding", KEEL_FLOAT32, true},
    {"gelu", KEEL_FLOAT32, true},
    {"swiglu", KEEL_FLOAT32, true},
    {"layer_norm", KEEL_BFLOAT16, true},
    {"rms_norm", KEEL_BFLOAT16, true},
    {"softmax", KEEL_BFLOAT16, true},
    {"gelu", KEEL_BFLOAT16, true},
    {"swiglu", KEEL_BFLOAT16, true},
    {"add", KEEL_FLOAT32, false},
    {"scale", KEEL_FLOAT32, false},
    {"axpy", KEEL_FLOAT32, false},
    {"elementwise_add", KEEL_FLOAT32, false},
    {"elementwise_add", KEEL_BFLOAT16, false},
    {"elementwise_exp", KEEL_FLOAT32, false},
    {"elementwise_exp", KEEL_BFLOAT16, false},
    {"elementwise_broadcast", KEEL_FLOAT32, false},
    {"elementwise_broadcast", KEEL_BFLOAT16, false},
    {"elementwise_padded", KEEL_FLOAT32, false},
    {"reduce_rows", KEEL_FLOAT32, false},
    {"reduce_rows", KEEL_BFLOAT16, false},
    {"reduce_columns", KEEL_FLOAT32, false},
    {"reduce_columns", KEEL_BFLOAT16, false},
    {"reduce_all", KEEL_FLOAT32, false},
    {"gather", KEEL_FLOAT32, false},
};

// The copy that defines the bandwidth: one tensor's bytes, from one set to the next.
class DeviceCopy {
 public:
  DeviceCopy(Device device, int64_t tensor_bytes) : bytes_(static_cast<uint64_t>(tensor_bytes)) {
    for (size_t i = 0; i < 2 * kCudaSets; ++i) {
      memory_.emplace_back(device, KEEL_MEMORY_DEVICE, bytes_);
    }
  }
  // Bytes read and written.
  double bytes() const { return 2.0 * static_cast<double>(bytes_); }
  double seconds(RawCuda& raw, uint64_t repetitions) const {
    return raw.seconds_of([&] {
      for (uint64_t i = 0; i < repetitions; ++i) {
        const size_t from = 2 * i % memory_.size();
        raw.copy(memory_[from + 1].data(), memory_[from].data(), bytes_);
      }
    });
  }

 private:
  const uint64_t bytes_;
  std::vector<Buffer> memory_;
};

void take_operator(const Operator& op, std::span<Figure> figures, Setup& setup) {
  const MemoryOperator& memory = memory_operator(op.name);
  const Extents extents = memory.extents(op.dtype, tensor_bytes(setup));
  const double bytes = memory.bytes(op.dtype, extents);
  OpRotation keel(*setup.cuda, kCudaSets,
                  [&](OpTensors& tensors) { return memory.make(tensors, op.dtype, extents); });
  if (!has_own_kernel(keel.call(0), *setup.cuda)) {
    leave_out(figures, kNoOwnKernel);
    return;
  }
  const DeviceCopy copy(*setup.cuda, tensor_bytes(setup));
  StreamClock clock(keel.stream());
  const Contender own[] = {
      {kKeel, bytes, /*run=*/nullptr,
       [&](uint64_t repetitions) { return clock.seconds_of([&] { keel.enqueue(repetitions); }); }},
      {kCopy, copy.bytes(), /*run=*/nullptr,
       [&](uint64_t repetitions) { return copy.seconds(*setup.raw_cuda, repetitions); }},
  };
  setup.cuda_torch->race(own, {op.name, extents.text(), name_of(op.dtype), bytes}, figures,
                         setup.race);
  for (Figure& figure : figures) {
    figure.about = fmt::format(
        "keel_op_run of {} on {} of {}, counted as the bytes that have to be read and written, "
        "against {}, by the device's clock, on {} sets of tensors in turn.",
        op.name, extents.text(), name_of(op.dtype),
        figure.peer == kCopy ? "cuMemcpyDtoDAsync counted so too" : setup.cuda_torch->describe(),
        kCudaSets);
  }
}

// Makes a figure against |peer|; the copy is the limit of all figures.
Figure operator_figure(const Operator& op, const char* against, const std::string& peer,
                       std::optional<Target> target) {
  Figure figure;
  figure.name = fmt::format("cuda_op/{}/{}/{}", op.name, name_of(op.dtype), against);
  figure.unit = Unit::kGigabytes;
  figure.subject = kKeel;
  figure.peer = peer;
  figure.limit = kCopy;
  figure.target = target;
  return figure;
}

CudaFigure make_figure(const Operator& op) {
  std::vector<Figure> figures = {operator_figure(op, "bound", kCopy, Target{0.85})};
  const auto add = [&](const char* mode, std::optional<Target> target) {
    figures.push_back(operator_figure(op, mode, CudaTorch::contender(mode), target));
  };
  if (op.has_torch) {
    add("eager", Target{1.5});
    add("compile", Target{1.0});
  }
  // "eager" is PyTorch's default optimizer; "fused" is its fastest.
  if (std::string_view(op.name) == "adamw") add("fused", std::nullopt);
  return {figures,
          [op](std::span<Figure> taken, Setup& setup) { take_operator(op, taken, setup); }};
}

// Limit: each rank's bytes cross PCIe to the host and the sum crosses back, at best concurrently.
void take_bridge(Figure& figure, Setup& setup) {
  if (!setup.cpu) {
    figure.leave_out(setup.no_cpu);
    return;
  }
  const uint64_t bytes = uint64_t{setup.quick ? 1u : 256u} << 20;
  const Device cuda = *setup.cuda;
  const Device devices[] = {*setup.cpu, cuda};
  ReducingRanks ranks(devices, bytes / sizeof(float));
  // Warm-up, as in a program that repeats the call: the first calls run before the CPU's memory is
  // pinned for the GPU.
  const auto is_by_gpu = [&] {
    return ranks.explain().find("\"reduced_by\": \"device\"") != std::string::npos;
  };
  constexpr int kMostBefore = 8;
  for (int run = 0; run < kMostBefore && !is_by_gpu(); ++run) ranks.run();
  const Buffer memory[] = {Buffer(cuda, KEEL_MEMORY_DEVICE, bytes),
                           Buffer(cuda, KEEL_MEMORY_DEVICE, bytes)};
  const Buffer host[] = {Buffer(cuda, KEEL_MEMORY_PINNED, bytes),
                         Buffer(cuda, KEEL_MEMORY_PINNED, bytes)};
  const double moved = 2.0 * static_cast<double>(bytes);
  const Contender contenders[] = {
      {kKeel, moved, [&] { ranks.run(); }},
      {kBothWays, moved,
       [&] {
         setup.raw_cuda->exchange(memory[0].data(), host[0].data(), host[1].data(),
                                  memory[1].data(), bytes);
       }},
  };
  figure.timings = race(contenders, setup.race);
  ranks.check_sums();
  figure.about = fmt::format(
      "sum of {} MiB float32 between a CPU and a CUDA rank, reduced by the {}, counted as the "
      "bytes that have to cross PCIe, as many each way, against the driver's copies of pinned "
      "memory both ways at once.",
      bytes >> 20, is_by_gpu() ? "GPU" : "host");
}

}  // namespace

std::vector<Figure> cuda_operators(Setup& setup) {
  std::vector<CudaFigure> figures;
  for (const Operator& op : kOperators) figures.push_back(make_figure(op));
  take_cuda_figures(setup, std::move(figures));
  return {};
}

std::vector<Figure> cuda_bridge(Setup& setup) {
  Figure figure;
  figure.name = "cuda_bridge_all_reduce";
  figure.unit = Unit::kGigabytes;
  figure.subject = kKeel;
  figure.peer = figure.limit = kBothWays;
  figure.target = Target{0.85};
  take_cuda_figures(setup, {{{figure}, [](std::span<Figure> figures, Setup& all) {
                               take_bridge(figures.front(), all);
                             }}});
  return {};
}

}  // namespace keel::bench
