// SPDX-License-Identifier: Apache-2.0
// Matrix products on an Nvidia GPU, with the CUDA and the Vulkan backend, against cuBLASLt and
// PyTorch.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/cublas_peer.h"
#include "bench/cuda_figures.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kVulkan[] = "Keel on Vulkan";
constexpr char kCublas[] = "cuBLASLt";
constexpr uint64_t kWorkspaceBytes = 32 << 20;
constexpr size_t kCompared = 1 << 20;  // elements of each result

// Opens cuBLASLt on the GPU; on failure |*out_why| is the reason.
std::unique_ptr<CublasPeer> open_cublas(std::string* out_why) {
  const auto is_set = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value != '\0';
  };
  // With the emulated driver, cuBLASLt must be the emulated one.
  if (is_set("KEEL_CUDA_LIBRARY_FOLDER") && !is_set("KEEL_CUBLASLT_LIBRARY_FOLDER")) {
    *out_why = "cuBLASLt opens the system's driver, not that of KEEL_CUDA_LIBRARY_FOLDER";
    return nullptr;
  }
  return CublasPeer::open(out_why);
}

// Values around zero, as in a model: the values affect a GPU's power draw and hence its clocks.
template <typename Type>
std::vector<Type> random_values(size_t count) {
  std::mt19937 random(/*seed=*/1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<Type> values(count);
  for (Type& value : values) {
    if constexpr (std::is_same_v<Type, float>) {
      value = uniform(random);
    } else {
      value = to_bfloat16(uniform(random));
    }
  }
  return values;
}

// Fills |buffer| with repetitions of |values|.
template <typename Type>
void fill_random(Stream& stream, const Buffer& buffer, const std::vector<Type>& values) {
  const uint64_t piece = values.size() * sizeof(Type);
  for (uint64_t offset = 0; offset < buffer.size(); offset += piece) {
    stream.copy(buffer.device(), static_cast<char*>(buffer.data()) + offset, Device(),
                values.data(), std::min(piece, buffer.size() - offset));
  }
  stream.synchronize();
}

// The matrices of one product, and Keel's call.
template <typename Type>
class Matrices {
 public:
  Matrices(Stream& stream, const Product& product)
      : a_(Buffer::of<Type>(stream.device(), static_cast<uint64_t>(product.m * product.k))),
        b_(Buffer::of<Type>(stream.device(), static_cast<uint64_t>(product.k * product.n))),
        c_(Buffer::of<Type>(stream.device(), static_cast<uint64_t>(product.m * product.n))),
        call_(KEEL_OP_MATMUL,
              {product.trans_a ? a_.tensor<Type>({product.k, product.m})
                               : a_.tensor<Type>({product.m, product.k}),
               product.trans_b ? b_.tensor<Type>({product.n, product.k})
                               : b_.tensor<Type>({product.k, product.n}),
               nullptr},
              {c_.tensor<Type>({product.m, product.n})},
              {product.trans_a ? 1 : 0, product.trans_b ? 1 : 0, 1.0, 0.0, 0}) {
    const std::vector<Type> values = random_values<Type>((1 << 20) / sizeof(Type));
    fill_random(stream, a_, values);
    fill_random(stream, b_, values);
  }

  const OpCall& call() const { return call_; }
  void multiply(CublasPeer& cublas, void* stream) const {
    cublas.multiply(a_.data(), b_.data(), c_.data(), stream);
  }
  // Returns the first elements of c.
  std::vector<Type> result(Stream& stream) const {
    std::vector<Type> values(std::min<size_t>(kCompared, c_.size() / sizeof(Type)));
    stream.download(values, c_);
    stream.synchronize();
    return values;
  }

 private:
  Buffer a_;
  Buffer b_;
  Buffer c_;
  OpCall call_;
};

float as_float(float value) {
  return value;
}
float as_float(bfloat16_t value) {
  return to_float(value);
}

// Throws if the results differ: a figure of a wrong product is invalid.
template <typename Type>
void compare(const std::vector<Type>& mine, const std::vector<Type>& theirs, double limit) {
  double error = 0;
  double energy = 0;
  for (size_t i = 0; i < mine.size(); ++i) {
    const double difference = as_float(mine[i]) - as_float(theirs[i]);
    error += difference * difference;
    energy += double{as_float(theirs[i])} * as_float(theirs[i]);
  }
  if (!(std::sqrt(error) <= limit * std::sqrt(energy))) {
    throw std::runtime_error(
        fmt::format("the product differs from cuBLASLt's by {:.2g} of its norm, more than {:.2g}",
                    std::sqrt(error / energy), limit));
  }
}

// Times a product against cuBLASLt and PyTorch, on kCudaSets sets of matrices in turn.
template <typename Type>
void take_matmul(std::span<Figure> figures, const Product& product, Setup& setup) {
  constexpr const char* kDtype = std::is_same_v<Type, float> ? "float32" : "bfloat16";
  Stream stream(*setup.cuda);
  std::vector<std::unique_ptr<Matrices<Type>>> sets;
  for (size_t i = 0; i < kCudaSets; ++i) {
    sets.push_back(std::make_unique<Matrices<Type>>(stream, product));
  }
  if (!has_own_kernel(sets[0]->call(), *setup.cuda)) {
    leave_out(figures, kNoOwnKernel);
    return;
  }
  StreamClock clock(stream);
  std::vector<Contender> own = {
      {kKeel, product.operations(), /*run=*/nullptr, [&](uint64_t repetitions) {
         return clock.seconds_of([&] {
           for (uint64_t i = 0; i < repetitions; ++i) {
             sets[i % kCudaSets]->call().run(stream);
           }
         });
       }}};

  RawCuda& raw = *setup.raw_cuda;
  std::string why;
  const std::unique_ptr<CublasPeer> cublas = open_cublas(&why);
  Buffer workspace;
  std::string library = kCublas;
  if (cublas == nullptr) {
    for (Figure& figure : figures) {
      if (figure.peer == kCublas) figure.leave_out(why);
      figure.limit = figure.peer;  // no other reference here
    }
  } else {
    workspace = Buffer(*setup.cuda, KEEL_MEMORY_DEVICE, kWorkspaceBytes);
    cublas->prepare(product, workspace.data(), workspace.size());
    library = cublas->describe();
    sets[0]->call().run(stream);
    const std::vector<Type> mine = sets[0]->result(stream);
    sets[0]->multiply(*cublas, raw.stream());
    raw.wait();
    compare(mine, sets[0]->result(stream), std::is_same_v<Type, float> ? 1e-4 : 1e-2);
    own.push_back({kCublas, product.operations(), /*run=*/nullptr, [&](uint64_t repetitions) {
                     return raw.seconds_of([&] {
                       for (uint64_t i = 0; i < repetitions; ++i) {
                         sets[i % kCudaSets]->multiply(*cublas, raw.stream());
                       }
                     });
                   }});
  }

  const char* const transposed = product.trans_a   ? "matmul_transposed_a"
                                 : product.trans_b ? "matmul_transposed_b"
                                                   : "matmul";
  setup.cuda_torch->race(own,
                         {transposed, fmt::format("{}x{}x{}", product.m, product.n, product.k),
                          kDtype, product.operations()},
                         figures, setup.race);
  for (Figure& figure : figures) {
    figure.about = fmt::format(
        "{} product of [{}, {}]{} and [{}, {}]{} through keel_op_run (by {}), against {}, by the "
        "device's clock.",
        kDtype, product.m, product.k, product.trans_a ? " (stored transposed)" : "", product.k,
        product.n, product.trans_b ? " (stored transposed)" : "",
        sets[0]->call().plan(*setup.cuda).kernel,
        figure.peer == kCublas
            ? library + " with 32 MiB of workspace and the kernel that its heuristic names"
            : setup.cuda_torch->describe());
  }
}

struct Shape {
  const char* name;
  int64_t m;
  int64_t n;
  int64_t k;
  bool trans_a;
  bool trans_b;
};

// Shapes of a transformer of width 4096 on 4096 tokens: a projection, the layers of its MLP, and
// the gradients of the first MLP layer with respect to its input and its weight.
constexpr Shape kShapes[] = {
    {"projection", 4096, 4096, 4096, false, false},
    {"mlp_up", 4096, 14336, 4096, false, false},
    {"mlp_down", 4096, 4096, 14336, false, false},
    {"input_gradient", 4096, 4096, 14336, false, true},
    {"weight_gradient", 4096, 14336, 4096, true, false},
};

Product product_of(const Shape& shape, keel_dtype dtype, bool quick) {
  const int64_t divisor = quick ? 64 : 1;
  return {shape.m / divisor, shape.n / divisor, shape.k / divisor,
          shape.trans_a,     shape.trans_b,     dtype};
}

Figure matmul_figure(const std::string& name, const std::string& peer, double target) {
  Figure figure;
  figure.name = name;
  figure.unit = Unit::kGigaflops;
  figure.subject = kKeel;
  figure.peer = peer;
  figure.limit = kCublas;
  figure.target = Target{target};
  return figure;
}

template <typename Type>
void add_shapes(std::vector<CudaFigure>& figures) {
  for (const Shape& shape : kShapes) {
    const std::string name = fmt::format(
        "cuda_matmul/{}/{}", std::is_same_v<Type, float> ? "float32" : "bfloat16", shape.name);
    figures.push_back({{matmul_figure(name + "/cublaslt", kCublas, 0.98),
                        matmul_figure(name + "/eager", CudaTorch::contender("eager"), 1.0)},
                       [shape](std::span<Figure> taken, Setup& setup) {
                         take_matmul<Type>(taken, product_of(shape, dtype_of<Type>, setup.quick),
                                           setup);
                       }});
  }
}

// Returns the Vulkan device of the same chip.
std::optional<Device> find_vulkan_of(Device cuda) {
  for (const keel_backend_info& backend : backends()) {
    if (std::string(backend.name) != "vulkan") continue;
    for (uint32_t ordinal = 0; ordinal < backend.device_count; ++ordinal) {
      const Device device = Device::find(fmt::format("vulkan:{}", ordinal));
      if (device.chip() == cuda.chip()) return device;
    }
  }
  return std::nullopt;
}

void take_vulkan(Figure& figure, Setup& setup) {
  const std::optional<Device> vulkan = find_vulkan_of(*setup.cuda);
  std::string why = "no Vulkan device is this GPU";
  const std::unique_ptr<CublasPeer> cublas = vulkan ? open_cublas(&why) : nullptr;
  if (cublas == nullptr) {
    figure.leave_out(why);
    return;
  }
  const int64_t size = setup.quick ? 64 : 4096;
  const Product product = {size, size, size, false, false, KEEL_FLOAT32};
  Stream stream(*setup.cuda);
  Stream vulkan_stream(*vulkan);
  const Matrices<float> matrices(stream, product);
  const Matrices<float> vulkan_matrices(vulkan_stream, product);
  const Buffer workspace(*setup.cuda, KEEL_MEMORY_DEVICE, kWorkspaceBytes);
  cublas->prepare(product, workspace.data(), workspace.size());
  RawCuda& raw = *setup.raw_cuda;

  vulkan_matrices.call().run(vulkan_stream);
  matrices.multiply(*cublas, raw.stream());
  raw.wait();
  compare(vulkan_matrices.result(vulkan_stream), matrices.result(stream), 1e-4);

  // The time of a wait is negligible for a product of this size.
  const Contender contenders[] = {
      {kVulkan, product.operations(),
       [&] {
         vulkan_matrices.call().run(vulkan_stream);
         vulkan_stream.synchronize();
       }},
      {kCublas, product.operations(),
       [&] {
         matrices.multiply(*cublas, raw.stream());
         raw.wait();
       }},
  };
  figure.about = fmt::format(
      "float32 product of two {0} x {0} matrices by the Vulkan backend on the GPU, against {1} "
      "without tensor cores, each with a wait.",
      size, cublas->describe());
  figure.timings = race(contenders, setup.race);
}

}  // namespace

std::vector<Figure> cuda_matmul(Setup& setup) {
  std::vector<CudaFigure> figures;
  add_shapes<float>(figures);
  add_shapes<bfloat16_t>(figures);
  take_cuda_figures(setup, std::move(figures));
  return {};
}

std::vector<Figure> cuda_vulkan_matmul(Setup& setup) {
  Figure figure;
  figure.name = "cuda_vulkan_matmul";
  figure.unit = Unit::kGigaflops;
  figure.subject = kVulkan;
  figure.peer = figure.limit = kCublas;
  figure.target = Target{0.5};
  take_cuda_figures(setup, {{{figure}, [](std::span<Figure> figures, Setup& all) {
                               take_vulkan(figures.front(), all);
                             }}});
  return {};
}

}  // namespace keel::bench
