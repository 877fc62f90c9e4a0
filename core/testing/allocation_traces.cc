// SPDX-License-Identifier: Apache-2.0
#include "core/testing/allocation_traces.h"

#include <iterator>
#include <sstream>
#include <string>
#include <utility>

namespace keel::testing {

namespace {

constexpr uint64_t kWidth = 768;
constexpr uint64_t kHeads = 12;
constexpr uint64_t kTokens = 50257;
constexpr uint64_t kLongest = 1024;
constexpr uint64_t kHalf = 2;   // bytes of a bfloat16
constexpr uint64_t kFloat = 4;  // bytes of a float32
constexpr uint32_t kCompute = 0;
constexpr uint32_t kTransfer = 1;

using Tensor = uint64_t;

// Writes a trace. Each kernel is work on the compute stream after the allocation of its results.
class Tape {
 public:
  Tensor alloc(uint64_t bytes, uint32_t stream = kCompute) {
    trace_.push_back({TraceStep::Kind::kAlloc, stream, ++last_, bytes});
    trace_.push_back({TraceStep::Kind::kWork, stream, 0, 0});
    return last_;
  }
  void free(Tensor tensor, uint32_t stream = kCompute) {
    trace_.push_back({TraceStep::Kind::kFree, stream, tensor, 0});
  }
  void free_all(std::vector<Tensor>* tensors, uint32_t stream = kCompute) {
    for (Tensor tensor : *tensors) free(tensor, stream);
    tensors->clear();
  }
  void work(uint32_t stream) { trace_.push_back({TraceStep::Kind::kWork, stream, 0, 0}); }
  void wait(uint32_t stream, uint32_t other) {
    trace_.push_back({TraceStep::Kind::kWaitFor, stream, other, 0});
  }
  Trace take() { return std::move(trace_); }

 private:
  Trace trace_;
  Tensor last_ = 0;
};

// Weights of one layer: attention in and out, the two of the perceptron; biases and norms.
constexpr uint64_t kLayerWeights[] = {3 * kWidth * kWidth,
                                      3 * kWidth,
                                      kWidth* kWidth,
                                      kWidth,
                                      4 * kWidth* kWidth,
                                      4 * kWidth,
                                      4 * kWidth* kWidth,
                                      kWidth,
                                      kWidth,
                                      kWidth,
                                      kWidth,
                                      kWidth};

struct Layer {
  Tensor in, norm1, stats1, qkv, attention, sums, middle, norm2, stats2, up, gelu;
};

class Model {
 public:
  Model(Tape& tape, uint64_t layers) : tape_(tape), layers_(layers) {}

  void create(bool optimizer) {
    std::vector<uint64_t> shapes = {kTokens * kWidth, kLongest * kWidth, kWidth, kWidth};
    for (uint64_t layer = 0; layer < layers_; ++layer) {
      shapes.insert(shapes.end(), std::begin(kLayerWeights), std::end(kLayerWeights));
    }
    for (const uint64_t count : shapes) {
      tape_.alloc(count * kHalf);
      for (int i = 0; optimizer && i < 3; ++i) tape_.alloc(count * kFloat);  // master, Adam's two
    }
  }

  // Calls |after_layer| once the gradients of a layer are allocated.
  template <typename AfterLayer>
  void step(uint64_t batch, uint64_t length, bool optimizer, const AfterLayer& after_layer) {
    const uint64_t rows = batch * length;
    const uint64_t activation = rows * kWidth * kHalf;
    const uint64_t stats = rows * 2 * kFloat;
    std::vector<Layer> saved;
    Tensor x = tape_.alloc(activation);
    for (uint64_t i = 0; i < layers_; ++i) x = forward(x, batch, length, &saved);
    const Tensor norm = tape_.alloc(activation);
    const Tensor norm_stats = tape_.alloc(stats);
    const Tensor logits = tape_.alloc(rows * kTokens * kHalf);
    const Tensor log_softmax = tape_.alloc(rows * kTokens * kFloat);
    const Tensor loss = tape_.alloc(kFloat);

    const Tensor d_logits = tape_.alloc(rows * kTokens * kHalf);
    tape_.free(log_softmax);
    tape_.free(logits);
    const Tensor d_norm = tape_.alloc(activation);
    gradients_.push_back(tape_.alloc(kTokens * kWidth * kHalf));
    tape_.free(d_logits);
    tape_.free(norm);
    Tensor dx = tape_.alloc(activation);
    gradients_.push_back(tape_.alloc(kWidth * kHalf));
    gradients_.push_back(tape_.alloc(kWidth * kHalf));
    tape_.free(d_norm);
    tape_.free(norm_stats);
    tape_.free(x);
    for (uint64_t i = layers_; i-- > 0;) {
      dx = backward(dx, rows, saved[i]);
      after_layer();
    }
    gradients_.push_back(tape_.alloc(kTokens * kWidth * kHalf));  // of the embeddings
    gradients_.push_back(tape_.alloc(kLongest * kWidth * kHalf));
    tape_.free(dx);
    tape_.free(loss);
    if (optimizer) update();
    tape_.free_all(&gradients_);
  }

 private:
  Tensor forward(Tensor x, uint64_t batch, uint64_t length, std::vector<Layer>* saved) {
    const uint64_t rows = batch * length;
    const uint64_t activation = rows * kWidth * kHalf;
    Layer layer{};
    layer.in = x;
    layer.norm1 = tape_.alloc(activation);
    layer.stats1 = tape_.alloc(rows * 2 * kFloat);
    layer.qkv = tape_.alloc(3 * activation);
    layer.attention = tape_.alloc(activation);
    layer.sums = tape_.alloc(batch * kHeads * length * kFloat);
    const Tensor projected = tape_.alloc(activation);
    layer.middle = tape_.alloc(activation);
    tape_.free(projected);
    layer.norm2 = tape_.alloc(activation);
    layer.stats2 = tape_.alloc(rows * 2 * kFloat);
    layer.up = tape_.alloc(4 * activation);
    layer.gelu = tape_.alloc(4 * activation);
    const Tensor down = tape_.alloc(activation);
    const Tensor out = tape_.alloc(activation);
    tape_.free(down);
    saved->push_back(layer);
    return out;
  }

  // Allocates the gradients of a product's weight and bias.
  void weight_gradients(size_t weight) {
    gradients_.push_back(tape_.alloc(kLayerWeights[weight] * kHalf));
    gradients_.push_back(tape_.alloc(kLayerWeights[weight + 1] * kHalf));
  }

  Tensor backward(Tensor dx, uint64_t rows, const Layer& layer) {
    const uint64_t activation = rows * kWidth * kHalf;
    const Tensor d_gelu = tape_.alloc(4 * activation);
    weight_gradients(6);
    tape_.free(layer.gelu);
    const Tensor d_up = tape_.alloc(4 * activation);
    tape_.free(d_gelu);
    tape_.free(layer.up);
    const Tensor d_norm2 = tape_.alloc(activation);
    weight_gradients(4);
    tape_.free(d_up);
    tape_.free(layer.norm2);
    const Tensor d_middle = tape_.alloc(activation);
    weight_gradients(8);
    tape_.free(d_norm2);
    tape_.free(layer.stats2);
    tape_.free(layer.middle);
    const Tensor d_sum = tape_.alloc(activation);
    tape_.free(d_middle);
    tape_.free(dx);
    const Tensor d_attention = tape_.alloc(activation);
    weight_gradients(2);
    const Tensor d_qkv = tape_.alloc(3 * activation);
    tape_.free(d_attention);
    tape_.free(layer.attention);
    tape_.free(layer.sums);
    tape_.free(layer.qkv);
    const Tensor d_norm1 = tape_.alloc(activation);
    weight_gradients(0);
    tape_.free(d_qkv);
    tape_.free(layer.norm1);
    const Tensor d_in = tape_.alloc(activation);
    weight_gradients(10);
    tape_.free(d_norm1);
    tape_.free(layer.stats1);
    tape_.free(layer.in);
    const Tensor out = tape_.alloc(activation);
    tape_.free(d_in);
    tape_.free(d_sum);
    return out;
  }

  // Adam, one tensor at a time: the gradient as float32, and two temporaries.
  void update() {
    const auto one = [&](uint64_t count) {
      std::vector<Tensor> temporaries;
      for (int i = 0; i < 3; ++i) temporaries.push_back(tape_.alloc(count * kFloat));
      tape_.free_all(&temporaries);
    };
    one(kTokens * kWidth);
    one(kLongest * kWidth);
    for (uint64_t layer = 0; layer < layers_; ++layer) {
      for (const uint64_t count : kLayerWeights) one(count);
    }
  }

  Tape& tape_;
  const uint64_t layers_;
  std::vector<Tensor> gradients_;
};

constexpr auto kNothing = [] {};

}  // namespace

Trace gpt2_training(uint32_t steps) {
  Tape tape;
  Model model(tape, 12);
  model.create(/*optimizer=*/true);
  for (uint32_t step = 0; step < steps; ++step) model.step(4, 1024, /*optimizer=*/true, kNothing);
  return tape.take();
}

Trace variable_lengths(uint32_t steps) {
  Tape tape;
  Model model(tape, 12);
  model.create(/*optimizer=*/false);
  uint64_t state = 1;
  for (uint32_t step = 0; step < steps; ++step) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    model.step(4, 64 + (state >> 33) % 961, /*optimizer=*/false, kNothing);
  }
  return tape.take();
}

Trace two_streams(uint32_t steps) {
  constexpr uint64_t kBatchBytes = 4 * 1024 * 2 * 8;  // tokens and targets, int64
  constexpr uint64_t kBucketBytes = 25 << 20;
  Tape tape;
  Model model(tape, 4);
  model.create(/*optimizer=*/true);
  std::vector<Tensor> batches = {tape.alloc(kBatchBytes, kTransfer),
                                 tape.alloc(kBatchBytes, kTransfer)};
  for (uint32_t step = 0; step < steps; ++step) {
    tape.wait(kCompute, kTransfer);
    model.step(4, 1024, /*optimizer=*/true, [&] {
      // The bucket is filled and reduced after the layer's gradients.
      tape.wait(kTransfer, kCompute);
      const Tensor bucket = tape.alloc(kBucketBytes, kTransfer);
      tape.work(kTransfer);
      tape.free(bucket, kTransfer);
      tape.wait(kCompute, kTransfer);
    });
    tape.free(batches[step % 2], kCompute);
    tape.wait(kTransfer, kCompute);
    batches[step % 2] = tape.alloc(kBatchBytes, kTransfer);
  }
  return tape.take();
}

namespace {

// Reads lines "a SIZE", which number their allocations from 0 on, and "f NUMBER".
Trace parse(const char* text) {
  Trace trace;
  std::istringstream lines(text);
  uint64_t next = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const uint64_t number = std::stoull(line.substr(2));
    if (line[0] == 'a') {
      trace.push_back({TraceStep::Kind::kAlloc, kCompute, next++, number});
    } else {
      trace.push_back({TraceStep::Kind::kFree, kCompute, number, 0});
    }
  }
  return trace;
}

constexpr char kTraining[] =
#include "core/testing/traces/mixed_training.inc"
    ;
constexpr char kConformance[] =
#include "core/testing/traces/conformance.inc"
    ;

}  // namespace

Trace recorded_training() {
  return parse(kTraining);
}

Trace recorded_conformance() {
  return parse(kConformance);
}

}  // namespace keel::testing
