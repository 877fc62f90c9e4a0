// SPDX-License-Identifier: Apache-2.0
// Attention with its gradient on the CPU device, against oneDNN's rate for matrix products.
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "bench/cpu_roof.h"
#include "bench/figures.h"
#include "bench/onednn_peer.h"
#include "bench/op_tensors.h"

namespace keel::bench {

namespace {

constexpr char kKeel[] = "Keel";
constexpr char kMultiplyAdds[] = "multiply-adds in registers";

// One sequence.
struct Shape {
  int64_t tokens;
  int64_t heads;
  int64_t width;  // of one head
  bool causal;

  // Two products forward, five backward: one of these recomputes the scores, because tokens x
  // tokens of them are not stored. With a causal mask only the visible pairs count.
  double operations() const {
    const double pairs = causal ? static_cast<double>(tokens * (tokens + 1) / 2)
                                : static_cast<double>(tokens * tokens);
    return 7 * 2.0 * pairs * static_cast<double>(width * heads);
  }
};

class Attention {
 public:
  Attention(Device device, const Shape& shape)
      : tensors_(device),
        q_(tokens(shape)),
        k_(tokens(shape)),
        v_(tokens(shape)),
        out_(tokens(shape)),
        logsumexp_(tensors_.uniform(KEEL_FLOAT32, {shape.heads, shape.tokens})),
        scale_(1.0 / std::sqrt(static_cast<double>(shape.width))),
        forward_(KEEL_OP_ATTENTION, {q_, k_, v_, nullptr, nullptr, nullptr}, {out_, logsumexp_},
                 {scale_, shape.causal ? 1 : 0, /*p=*/0.0, /*seed=*/0, /*offset=*/0}),
        backward_(KEEL_OP_ATTENTION_BACKWARD,
                  {q_, k_, v_, out_, tokens(shape), logsumexp_, nullptr, nullptr, nullptr},
                  {tokens(shape), tokens(shape), tokens(shape)},
                  {scale_, shape.causal ? 1 : 0, /*p=*/0.0, /*seed=*/0, /*offset=*/0}),
        stream_(device) {}

  void run() {
    forward_.run(stream_);
    backward_.run(stream_);
    stream_.synchronize();
  }

 private:
  keel_tensor tokens(const Shape& shape) {
    return tensors_.uniform(KEEL_FLOAT32, {shape.tokens, shape.heads, shape.width});
  }

  OpTensors tensors_;
  const keel_tensor q_, k_, v_, out_, logsumexp_;
  const double scale_;
  const OpCall forward_, backward_;
  const Stream stream_;
};

// A product of square matrices, at which oneDNN is efficient.
class SquareProduct {
 public:
  SquareProduct(int64_t size, uint32_t cores)
      : product_{size, size, size},
        cores_(cores),
        a_(static_cast<size_t>(size * size), 0.5f),
        b_(a_),
        c_(a_) {}
  double operations() const { return product_.operations(); }
  void run() { OnednnPeer::multiply(product_, a_.data(), b_.data(), c_.data(), cores_); }

 private:
  const Product product_;
  const uint32_t cores_;
  std::vector<float> a_, b_, c_;
};

std::string figure_of(const Shape& shape) {
  return fmt::format("ops_attention/{}/{}x{}", shape.causal ? "causal" : "full", shape.tokens,
                     shape.width);
}

Figure attention_of(const Shape& shape, CpuRoof& roof, const Setup& setup) {
  const uint32_t cores = setup.cpu->info().compute_units;
  const int64_t size = setup.quick ? 128 : 1024;
  Attention attention(*setup.cpu, shape);
  attention.run();  // Before oneDNN: the backend decides which instructions oneDNN may use.
  SquareProduct product(size, cores);
  const std::string peer = fmt::format("{} sgemm", OnednnPeer::describe());
  const Contender contenders[] = {
      {kKeel, shape.operations(), [&] { attention.run(); }},
      {peer, product.operations(), [&] { product.run(); }},
      {kMultiplyAdds, roof.operations(), [&] { roof.run(); }},
  };
  Figure figure;
  figure.name = figure_of(shape);
  figure.about = fmt::format(
      "float32 attention and its gradient through keel_op_run, {} tokens, {} heads of {}{}, "
      "counted "
      "as the seven products of them{}, against dnnl_sgemm of {} x {} matrices on as many threads "
      "({}).",
      shape.tokens, shape.heads, shape.width, shape.causal ? ", causal" : "",
      shape.causal ? " of the pairs that see each other" : "", size, size, cores);
  figure.unit = Unit::kGigaflops;
  RaceOptions options = setup.race;
  options.enough = std::chrono::seconds(4);
  figure.timings = race(contenders, options);
  figure.subject = kKeel;
  figure.peer = peer;
  figure.limit = kMultiplyAdds;
  figure.target = Target{0.50};
  return figure;
}

}  // namespace

std::vector<Figure> ops_attention(Setup& setup) {
  if (!setup.cpu) return {Figure::skip("ops_attention", setup.no_cpu)};
  if (!OnednnPeer::is_here()) return {Figure::skip("ops_attention", OnednnPeer::describe())};
  CpuRoof roof(setup.cpu->info().compute_units);
  // All heads together have the same number of tokens, so that the memory traffic is alike.
  const int64_t head_tokens = setup.quick ? 128 : 8192;
  std::vector<Figure> figures;
  for (const bool causal : {false, true}) {
    for (const int64_t width : {64, 128}) {
      for (const int64_t tokens : {512, 1024, 2048, 4096}) {
        if (setup.quick && tokens > 512) continue;
        const int64_t counted = setup.quick ? head_tokens : tokens;
        const Shape shape = {counted, head_tokens / counted, width, causal};
        if (setup.wants(figure_of(shape))) figures.push_back(attention_of(shape, roof, setup));
      }
    }
  }
  return figures;
}

}  // namespace keel::bench
