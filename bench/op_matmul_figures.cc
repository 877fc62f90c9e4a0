// SPDX-License-Identifier: Apache-2.0
// Matrix products on the CPU device in many shapes, against the faster of oneDNN and OpenBLAS.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/copy_pass.h"
#include "bench/cpu_roof.h"
#include "bench/figures.h"
#include "bench/onednn_peer.h"
#include "bench/op_tensors.h"
#include "bench/openblas_peer.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kMultiplyAdds[] = "multiply-adds in registers";

constexpr Product kShapes[] = {
    {64, 64, 64},
    {128, 128, 128},
    {256, 256, 256},
    {512, 512, 512},
    {1024, 1024, 1024},
    {2048, 2048, 2048},
    {4096, 4096, 4096},
    // A layer of width 768 on 512 tokens, up and down.
    {512, 3072, 768},
    {512, 768, 3072},
    // Long in one or two dimensions.
    {4096, 64, 64},
    {4096, 64, 1024},
    {64, 4096, 1024},
    {64, 64, 4096},
    {4096, 4096, 64},
    // So few rows or columns that reading the other matrix dominates.
    {1, 4096, 4096},
    {4096, 1, 4096},
    {8, 4096, 4096},
};

struct Peers {
  explicit Peers(uint32_t cores)
      : cores(cores), roof(cores), copy(cores, /*pair_bytes=*/4 * cache_bytes()) {}
  uint32_t cores;
  CpuRoof roof;
  CopyPass copy;
  std::unique_ptr<OpenblasPeer> openblas;  // null: absent
};

const char* name_of(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 ? "float32" : "bfloat16";
}

// Whether b is packed beforehand, outside the timed work.
enum class Weights { kPlain, kPacked };

const char* group_of(Weights weights) {
  return weights == Weights::kPacked ? "ops_matmul_packed" : "ops_matmul";
}

std::string figure_of(const Product& product, keel_dtype dtype, Weights weights) {
  return fmt::format("{}/{}/{}x{}x{}", group_of(weights), name_of(dtype), product.m, product.n,
                     product.k);
}

// One set of matrices, for the peers: in Keel's memory, so that pages are alike.
struct Matrices {
  void* a;
  void* b;
  void* c;
  std::unique_ptr<OnednnProduct> packed;  // b in the library's own layout
};

double as_double(const void* values, keel_dtype dtype, size_t i) {
  return dtype == KEEL_FLOAT32
             ? static_cast<double>(static_cast<const float*>(values)[i])
             : static_cast<double>(to_float(static_cast<const bfloat16_t*>(values)[i]));
}

// The products of one shape and dtype, by all libraries that support them.
class Products {
 public:
  Products(const Product& product, keel_dtype dtype, Weights weights, Peers& peers,
           const Setup& setup)
      : product_(product),
        dtype_(dtype),
        weights_(weights),
        peers_(peers),
        device_(*setup.cpu),
        bytes_(product.elements() * (dtype == KEEL_FLOAT32 ? 4 : 2)),
        keel_(device_, sets_for(setup), [&](OpTensors& tensors) { return make(tensors); }) {
    for (size_t i = 0; i < keel_.sets(); ++i) {
      OpCall& call = keel_.call(i);
      matrices_.push_back({host_address(device_, call.input(0)), host_address(device_, b_[i]),
                           host_address(device_, call.output(0)), nullptr});
    }
    if (peers.openblas && dtype == KEEL_BFLOAT16) wide_c_.resize(c_elements());
    // Twenty milliseconds of work per wait, by a core's peak rates: other figures measure the wait,
    // about 50 us if a virtual machine had put the threads to sleep.
    constexpr double kOperations = 250e9;
    constexpr double kBytes = 5e9;
    const double seconds =
        std::max(product.operations() / kOperations, bytes_ / kBytes) / peers.cores;
    per_wait_ = std::max<uint64_t>(1, static_cast<uint64_t>(20e-3 / seconds));
  }

  Figure take(const Setup& setup) {
    Figure figure;
    figure.name = figure_of(product_, dtype_, weights_);
    if (matrices_.front().c == nullptr) {
      return Figure::skip(figure.name, "the host does not reach the device's memory");
    }
    std::vector<Contender> contenders = products();
    const size_t peers = contenders.size() - 1;
    if (weights_ == Weights::kPacked) add_packed(contenders);
    const size_t limits = contenders.size();
    const std::string wrong = find_wrong(contenders);
    if (!wrong.empty()) return Figure::fail(figure.name, wrong + " has another product");
    add_limits(contenders);

    figure.about = fmt::format(
        "{} product [{},{}] [{},{}]{} through keel_op_run, one keel_stream_synchronize for {}{}, "
        "against the best of the others{}, on as many threads ({}) and the same memory.",
        name_of(dtype_), product_.m, product_.k, product_.k, product_.n,
        weights_ == Weights::kPacked ? ", packed beforehand," : "", per_wait_,
        keel_.sets() == 1
            ? ""
            : fmt::format(", {} sets of matrices in turn, more than caches hold", keel_.sets()),
        weights_ == Weights::kPacked ? ", which take b as it is" : "", peers_.cores);
    figure.unit = Unit::kGigaflops;
    RaceOptions options = setup.race;
    options.enough = std::chrono::seconds(4);
    figure.timings = race(contenders, options);
    const auto is_faster = [](const Timings& one, const Timings& other) {
      return median(one.seconds) / one.work < median(other.seconds) / other.work;
    };
    const auto first_peer = figure.timings.begin() + 1;
    const auto last_peer = first_peer + static_cast<std::ptrdiff_t>(peers);
    const auto first_limit = figure.timings.begin() + static_cast<std::ptrdiff_t>(limits);
    figure.subject = kKeel;
    figure.peer = std::min_element(first_peer, last_peer, is_faster)->name;
    figure.limit = std::max_element(first_limit, figure.timings.end(), is_faster)->name;
    figure.target = Target{0.97};
    return figure;
  }

 private:
  // With few rows or columns, the matrix that is read once must be in memory, like a model's
  // weights, and not in a cache.
  size_t sets_for(const Setup& setup) const {
    if (std::min(product_.m, product_.n) > 16 || setup.quick) return 1;
    return static_cast<size_t>(std::ceil(4 * static_cast<double>(cache_bytes()) / bytes_));
  }
  size_t c_elements() const { return static_cast<size_t>(product_.m * product_.n); }

  std::unique_ptr<OpCall> make(OpTensors& tensors) {
    const auto [m, n, k] = product_;
    const keel_tensor a = tensors.uniform(dtype_, {m, k});
    const keel_tensor b = tensors.uniform(dtype_, {k, n});
    const keel_tensor c = tensors.uniform(dtype_, {m, n});
    b_.push_back(b);
    if (weights_ == Weights::kPlain) {
      return std::unique_ptr<OpCall>(
          new OpCall(KEEL_OP_MATMUL, {a, b, nullptr}, {c}, {0, 0, 1.0, 0.0, 0}));
    }
    const keel_tensor packed = tensors.packed(b);
    return std::unique_ptr<OpCall>(
        new OpCall(KEEL_OP_PACKED_MATMUL, {a, packed, nullptr}, {c}, {0, 1.0, 0.0, 0}));
  }

  template <typename Multiply>
  Contender peer(std::string name, Multiply multiply) {
    return {std::move(name), product_.operations() * static_cast<double>(per_wait_),
            [this, multiply = std::move(multiply)] {
              for (uint64_t i = 0; i < per_wait_; ++i) {
                multiply(matrices_[next_]);
                next_ = (next_ + 1) % matrices_.size();
              }
            }};
  }

  // Keel first: its backend decides which instructions oneDNN may use in this process.
  std::vector<Contender> products() {
    std::vector<Contender> contenders;
    contenders.push_back({kKeel, product_.operations() * static_cast<double>(per_wait_),
                          [this] { keel_.run(per_wait_); }});
    const bool is_wide = dtype_ == KEEL_FLOAT32;
    if (OnednnPeer::is_here() && is_wide) {
      contenders.push_back(
          peer(OnednnPeer::describe() + " sgemm", [this](const Matrices& matrices) {
            OnednnPeer::multiply(product_, static_cast<const float*>(matrices.a),
                                 static_cast<const float*>(matrices.b),
                                 static_cast<float*>(matrices.c), peers_.cores);
          }));
    }
    if (is_wide ? OnednnPeer::is_here() : OnednnPeer::has_bf16()) {
      keel_.run(1);
      const auto compiled = std::make_shared<OnednnProduct>(product_, !is_wide, peers_.cores);
      contenders.push_back(
          peer(OnednnPeer::describe() + " matmul", [compiled](const Matrices& matrices) {
            compiled->run(matrices.a, matrices.b, matrices.c);
          }));
    }
    if (peers_.openblas && is_wide) {
      contenders.push_back(peer(peers_.openblas->name(), [this](const Matrices& matrices) {
        peers_.openblas->multiply(product_, static_cast<const float*>(matrices.a),
                                  static_cast<const float*>(matrices.b),
                                  static_cast<float*>(matrices.c), peers_.cores);
      }));
    }
    if (peers_.openblas && !is_wide && peers_.openblas->has_bf16()) {
      contenders.push_back(peer(peers_.openblas->name(), [this](const Matrices& matrices) {
        peers_.openblas->multiply_bf16(product_, matrices.a, matrices.b, wide_c_.data(),
                                       peers_.cores);
      }));
    }
    return contenders;
  }

  // oneDNN with weights in its own layout. Reported but not a peer: the plain call must reorder the
  // weights each time.
  void add_packed(std::vector<Contender>& contenders) {
    const bool is_bfloat16 = dtype_ == KEEL_BFLOAT16;
    if (is_bfloat16 ? !OnednnPeer::has_bf16() : !OnednnPeer::is_here()) return;
    for (Matrices& set : matrices_) {
      set.packed = std::make_unique<OnednnProduct>(product_, is_bfloat16, peers_.cores, set.b);
    }
    contenders.push_back(peer(
        OnednnPeer::describe() + " matmul, packed",
        [](const Matrices& matrices) { matrices.packed->run(matrices.a, nullptr, matrices.c); }));
  }

  // Returns the name of a contender whose product differs from Keel's; empty if all agree.
  std::string find_wrong(const std::vector<Contender>& contenders) {
    const double allowed = dtype_ == KEEL_FLOAT32 ? 1e-5 : 1e-2;
    std::vector<double> wanted;
    for (const Contender& contender : contenders) {
      std::memset(matrices_.front().c, 0, c_elements() * (dtype_ == KEEL_FLOAT32 ? 4 : 2));
      // The position in the rotation of sets is unknown, so all sets are written.
      const uint64_t runs = (matrices_.size() + per_wait_ - 1) / per_wait_;
      for (uint64_t i = 0; i < runs; ++i) contender.run();
      const bool is_apart =
          dtype_ == KEEL_BFLOAT16 && peers_.openblas && contender.name == peers_.openblas->name();
      if (is_apart) continue;  // its result may be of another set
      double difference = 0;
      double energy = 0;
      for (size_t i = 0; i < c_elements(); ++i) {
        const double value = as_double(matrices_.front().c, dtype_, i);
        if (contender.name == kKeel) wanted.push_back(value);
        difference += (value - wanted[i]) * (value - wanted[i]);
        energy += wanted[i] * wanted[i];
      }
      if (!(std::sqrt(difference) <= allowed * std::sqrt(energy))) return contender.name;
    }
    return {};
  }

  // Adds the lower bounds of a product's time: its operations or, if the caches are too small, its
  // bytes.
  void add_limits(std::vector<Contender>& contenders) {
    contenders.push_back({kMultiplyAdds, peers_.roof.operations(), [this] { peers_.roof.run(); }});
    if (keel_.sets() == 1 && bytes_ <= static_cast<double>(cache_bytes())) return;
    const double waited = static_cast<double>(per_wait_);
    contenders.push_back(
        {peers_.copy.name() + " of as many bytes", product_.operations() * waited,
         [this, waited] { peers_.copy.move(static_cast<uint64_t>(bytes_ * waited)); }});
  }

  const Product product_;
  const keel_dtype dtype_;
  const Weights weights_;
  Peers& peers_;
  const Device device_;
  const double bytes_;          // of the three matrices
  std::vector<keel_tensor> b_;  // of each set, in the caller's layout
  OpRotation keel_;
  std::vector<Matrices> matrices_;
  size_t next_ = 0;
  uint64_t per_wait_ = 1;
  std::vector<float> wide_c_;  // OpenBLAS's products of bfloat16 matrices
};

// Combines all shapes of one dtype.
Figure mean_of(keel_dtype dtype, std::span<const Figure> figures) {
  constexpr char kPeer[] = "the best peer of each";
  constexpr char kLimit[] = "the limit of each";
  std::vector<const Timings*> subjects, peers, limits;
  for (const Figure& figure : figures) {
    if (!figure.skipped.empty()) continue;
    subjects.push_back(&figure.find(figure.subject));
    peers.push_back(&figure.find(figure.peer));
    limits.push_back(&figure.find(figure.limit));
  }
  Figure mean;
  mean.name = fmt::format("ops_matmul/{}/mean", name_of(dtype));
  if (subjects.empty()) return Figure::skip(mean.name, "none of the shapes was taken");
  mean.about = fmt::format("the geometric mean over {} shapes.", subjects.size());
  mean.unit = Unit::kGigaflops;
  mean.timings = {geometric_mean(kKeel, subjects), geometric_mean(kPeer, peers),
                  geometric_mean(kLimit, limits)};
  mean.subject = kKeel;
  mean.peer = kPeer;
  mean.limit = kLimit;
  return mean;
}

// Returns the shape with the median ratio to its best peer's rate.
Figure median_of(keel_dtype dtype, std::span<const Figure> figures) {
  std::vector<const Figure*> taken;
  for (const Figure& figure : figures) {
    if (figure.skipped.empty()) taken.push_back(&figure);
  }
  const std::string name = fmt::format("ops_matmul_packed/{}/median", name_of(dtype));
  if (taken.empty()) return Figure::skip(name, "none of the shapes was taken");
  const auto middle = taken.begin() + static_cast<std::ptrdiff_t>((taken.size() - 1) / 2);
  std::nth_element(taken.begin(), middle, taken.end(), [](const Figure* one, const Figure* other) {
    return one->result().median < other->result().median;
  });
  Figure median = **middle;
  median.name = name;
  median.about = fmt::format("the middle one of {} shapes, {}: {}", taken.size(), (*middle)->name,
                             (*middle)->about);
  median.target = Target{1.05};
  return median;
}

// Measures all shapes of both dtypes, and adds |summary| for each dtype.
std::vector<Figure> products_of_all_shapes(Setup& setup, Weights weights,
                                           Figure (*summary)(keel_dtype, std::span<const Figure>)) {
  const std::string group = group_of(weights);
  if (!setup.cpu) return {Figure::skip(group, setup.no_cpu)};
  Peers peers(setup.cpu->info().compute_units);
  std::string no_openblas;
  peers.openblas = OpenblasPeer::open(&no_openblas);
  if (!OnednnPeer::is_here() && !peers.openblas) {
    return {Figure::skip(group, OnednnPeer::describe() + "; " + no_openblas)};
  }
  std::vector<Figure> figures;
  if (!peers.openblas) figures.push_back(Figure::skip(group + "/openblas", no_openblas));
  for (const keel_dtype dtype : {KEEL_FLOAT32, KEEL_BFLOAT16}) {
    const bool has_peer = dtype == KEEL_FLOAT32 || OnednnPeer::has_bf16() ||
                          (peers.openblas && peers.openblas->has_bf16());
    if (!has_peer) {
      figures.push_back(Figure::skip(
          group + "/bfloat16",
          OnednnPeer::describe() + ": no bfloat16 product on this processor; nor has OpenBLAS"));
      continue;
    }
    const size_t first = figures.size();
    for (const Product& shape : kShapes) {
      if (!setup.wants(figure_of(shape, dtype, weights))) continue;
      if (setup.quick && shape.operations() > 1e8) continue;
      figures.push_back(Products(shape, dtype, weights, peers, setup).take(setup));
    }
    if (figures.size() > first) {
      figures.push_back(summary(dtype, std::span(figures).subspan(first)));
    }
  }
  return figures;
}

}  // namespace

std::vector<Figure> ops_matmul(Setup& setup) {
  return products_of_all_shapes(setup, Weights::kPlain, mean_of);
}

std::vector<Figure> ops_matmul_packed(Setup& setup) {
  return products_of_all_shapes(setup, Weights::kPacked, median_of);
}

}  // namespace keel::bench
