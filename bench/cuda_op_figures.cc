// Operators that only move memory, and all_reduce over PCIe, against what the driver copies.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "bench/cuda_figures.h"
#include "bench/summing_ranks.h"

namespace keel::bench {

namespace {

// Far more than a cache holds, and in turns: 128 MiB of float32, three times.
struct Sizes {
  explicit Sizes(bool quick)
      : elements(quick ? 1 << 16 : 32 << 20),
        columns(quick ? 64 : 1024),
        vocabulary(quick ? 1024 : 32768),
        sets(quick ? 2 : 3) {}
  int64_t elements;
  int64_t columns;     // of a row of the embedding
  int64_t vocabulary;  // of cross_entropy
  size_t sets;
};

// One operator on |sets| equal sets of tensors.
struct Work {
  std::vector<Buffer> memory;
  std::vector<std::unique_ptr<OpCall>> calls;
  double bytes = 0;  // that one call has to read and to write
};

// Hands out the memory of a call.
class Tensors {
 public:
  Tensors(Stream& stream, Work& work) : stream_(stream), work_(work) {}

  // Values that no operator here turns into infinities.
  keel_tensor floats(std::initializer_list<int64_t> shape) {
    const Buffer& buffer = add(count_of(shape) * sizeof(float));
    stream_.fill(buffer, 0.5f);
    return buffer.tensor<float>(shape);
  }
  keel_tensor halves(std::initializer_list<int64_t> shape) {
    return add(count_of(shape) * sizeof(bfloat16_t)).tensor<bfloat16_t>(shape);
  }
  // Each number below |bound| about as often, in no order.
  keel_tensor indices(int64_t count, int64_t bound) {
    std::vector<int32_t> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<int32_t>(static_cast<int64_t>(i) % bound);
    }
    std::shuffle(numbers.begin(), numbers.end(), std::mt19937(/*seed=*/1));
    const Buffer& buffer = add(numbers.size() * sizeof(int32_t));
    stream_.upload(buffer, numbers);
    stream_.synchronize();
    return buffer.tensor<int32_t>({count});
  }

 private:
  static uint64_t count_of(std::initializer_list<int64_t> shape) {
    return static_cast<uint64_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  }
  const Buffer& add(uint64_t bytes) {
    work_.memory.emplace_back(stream_.device(), KEEL_MEMORY_DEVICE, bytes);
    return work_.memory.back();
  }

  Stream& stream_;
  Work& work_;
};

// One call on tensors of its own, and the bytes that it has to read and to write.
using MakeCall = std::unique_ptr<OpCall> (*)(Tensors& tensors, const Sizes& sizes, double* bytes);

constexpr double kFloat = sizeof(float);

std::unique_ptr<OpCall> make_add(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 3 * kFloat * static_cast<double>(sizes.elements);
  const auto x = [&] { return tensors.floats({sizes.elements}); };
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_ADD, {x(), x()}, {x()}));
}

std::unique_ptr<OpCall> make_scale(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 2 * kFloat * static_cast<double>(sizes.elements);
  const auto x = [&] { return tensors.floats({sizes.elements}); };
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_SCALE, {x()}, {x()}, {0.5}));
}

std::unique_ptr<OpCall> make_axpy(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 3 * kFloat * static_cast<double>(sizes.elements);
  const auto x = [&] { return tensors.floats({sizes.elements}); };
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_AXPY, {x(), x()}, {x()}, {0.5}));
}

std::unique_ptr<OpCall> make_cast(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 1.5 * kFloat * static_cast<double>(sizes.elements);
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_CAST, {tensors.floats({sizes.elements})},
                                            {tensors.halves({sizes.elements})}));
}

std::unique_ptr<OpCall> make_gelu(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 2 * kFloat * static_cast<double>(sizes.elements);
  const auto x = [&] { return tensors.floats({sizes.elements}); };
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_GELU, {x()}, {x()}, {/*form=*/0}));
}

// In place, as training does it: four tensors are read, and three of them written.
std::unique_ptr<OpCall> make_adamw(Tensors& tensors, const Sizes& sizes, double* bytes) {
  *bytes = 7 * kFloat * static_cast<double>(sizes.elements);
  const auto x = [&] { return tensors.floats({sizes.elements}); };
  const keel_tensor parameter = x();
  const keel_tensor mean = x();
  const keel_tensor variance = x();
  return std::unique_ptr<OpCall>(new OpCall(KEEL_OP_ADAMW, {parameter, x(), mean, variance},
                                            {parameter, mean, variance},
                                            {1e-3, 0.9, 0.999, 1e-8, 0.01, 1, 1.0}));
}

std::unique_ptr<OpCall> make_cross_entropy(Tensors& tensors, const Sizes& sizes, double* bytes) {
  const int64_t rows = sizes.elements / sizes.vocabulary;
  *bytes = kFloat * static_cast<double>(sizes.elements + 3 * rows);
  return std::unique_ptr<OpCall>(new OpCall(
      KEEL_OP_CROSS_ENTROPY,
      {tensors.floats({rows, sizes.vocabulary}), tensors.indices(rows, sizes.vocabulary)},
      {tensors.floats({rows}), tensors.floats({rows})}));
}

// As many rows as the table has, each once.
std::unique_ptr<OpCall> make_embedding(Tensors& tensors, const Sizes& sizes, double* bytes) {
  const int64_t rows = sizes.elements / sizes.columns;
  *bytes = kFloat * static_cast<double>(2 * sizes.elements + rows);
  return std::unique_ptr<OpCall>(new OpCall(
      KEEL_OP_EMBEDDING, {tensors.floats({rows, sizes.columns}), tensors.indices(rows, rows)},
      {tensors.floats({rows, sizes.columns})}, {/*first=*/0}));
}

// The copy that bandwidth is measured by: of as much as a tensor, from one set to the next.
class DeviceCopy {
 public:
  DeviceCopy(Device device, const Sizes& sizes)
      : bytes_(static_cast<uint64_t>(sizes.elements) * sizeof(float)) {
    for (size_t i = 0; i < 2 * sizes.sets; ++i) {
      memory_.emplace_back(device, KEEL_MEMORY_DEVICE, bytes_);
    }
  }
  // Read and written.
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

Figure operator_figure(const std::string& name, MakeCall make, Setup& setup) {
  const Sizes sizes(setup.quick);
  Stream stream(*setup.cuda);
  Work work;
  Tensors tensors(stream, work);
  while (work.calls.size() < sizes.sets) {
    work.calls.push_back(make(tensors, sizes, &work.bytes));
    if (!has_own_kernel(*work.calls.back(), *setup.cuda)) return Figure::skip(name, kNoOwnKernel);
  }
  const DeviceCopy copy(*setup.cuda, sizes);
  StreamClock clock(stream);
  const Contender contenders[] = {
      {"Keel", work.bytes, /*run=*/nullptr,
       [&](uint64_t repetitions) {
         return clock.seconds_of([&] {
           for (uint64_t i = 0; i < repetitions; ++i)
             work.calls[i % work.calls.size()]->run(stream);
         });
       }},
      {"copy within the device", copy.bytes(), /*run=*/nullptr,
       [&](uint64_t repetitions) { return copy.seconds(*setup.raw_cuda, repetitions); }},
  };
  Figure figure;
  figure.name = name;
  figure.about = fmt::format(
      "keel_op_run of {} elements, counted as the bytes that have to be read and written, against "
      "cuMemcpyDtoDAsync of as many float32, by the device's clock, on {} sets of memory in turn.",
      sizes.elements, sizes.sets);
  figure.unit = Unit::kGigabytes;
  figure.timings = race(contenders, setup.race);
  figure.subject = "Keel";
  figure.peer = figure.limit = "copy within the device";
  figure.target = Target{0.85};
  return figure;
}

CudaFigure make_figure(const std::string& name, MakeCall make) {
  return {"cuda_op/" + name, [make](const std::string& figure_name, Setup& setup) {
            return operator_figure(figure_name, make, setup);
          }};
}

// What has to cross PCIe is a rank's bytes to the host and the sum back, at once at best.
Figure bridge_figure(const std::string& name, Setup& setup) {
  if (!setup.cpu) return Figure::skip(name, setup.no_cpu);
  const uint64_t bytes = uint64_t{setup.quick ? 1u : 256u} << 20;
  const Device cuda = *setup.cuda;
  const Device devices[] = {*setup.cpu, cuda};
  SummingRanks ranks(devices, bytes / sizeof(float));
  const Buffer memory[] = {Buffer(cuda, KEEL_MEMORY_DEVICE, bytes),
                           Buffer(cuda, KEEL_MEMORY_DEVICE, bytes)};
  const Buffer host[] = {Buffer(cuda, KEEL_MEMORY_PINNED, bytes),
                         Buffer(cuda, KEEL_MEMORY_PINNED, bytes)};
  const double moved = 2.0 * static_cast<double>(bytes);
  const Contender contenders[] = {
      {"Keel", moved, [&] { ranks.run(); }},
      {"copies of the driver, both ways", moved,
       [&] {
         setup.raw_cuda->exchange(memory[0].data(), host[0].data(), host[1].data(),
                                  memory[1].data(), bytes);
       }},
  };
  Figure figure;
  figure.name = name;
  figure.unit = Unit::kGigabytes;
  figure.timings = race(contenders, setup.race);
  ranks.check_sums();
  figure.about = fmt::format(
      "sum of {} MiB float32 between a CPU and a CUDA rank, counted as the bytes that have to "
      "cross "
      "PCIe, as many each way, against the driver's copies of pinned memory both ways at once.",
      bytes >> 20);
  figure.subject = "Keel";
  figure.peer = figure.limit = "copies of the driver, both ways";
  figure.target = Target{0.85};
  return figure;
}

}  // namespace

std::vector<Figure> cuda_operators(Setup& setup) {
  return take_cuda_figures(setup, {make_figure("add", make_add), make_figure("scale", make_scale),
                                   make_figure("axpy", make_axpy), make_figure("cast", make_cast),
                                   make_figure("gelu", make_gelu), make_figure("adamw", make_adamw),
                                   make_figure("cross_entropy", make_cross_entropy),
                                   make_figure("embedding", make_embedding)});
}

std::vector<Figure> cuda_bridge(Setup& setup) {
  return take_cuda_figures(setup, {{"cuda_bridge_all_reduce", bridge_figure}});
}

}  // namespace keel::bench
