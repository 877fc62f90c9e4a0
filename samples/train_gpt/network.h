// SPDX-License-Identifier: Apache-2.0
// The model on one device: forward and backward of one batch.
#ifndef KEEL_SAMPLES_TRAIN_GPT_NETWORK_H_
#define KEEL_SAMPLES_TRAIN_GPT_NETWORK_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

#include "samples/train_gpt/data.h"
#include "samples/train_gpt/layers.h"
#include "samples/train_gpt/weights.h"

namespace train_gpt {

// Activations of a fixed number of sequences, allocated once. Several networks may share
// weights. All members but the constructor only enqueue, so one thread can keep many devices
// busy. Not thread-safe.
class Network {
 public:
  // |stream| and |weights| outlive this.
  Network(keel::Stream& stream, const Weights& weights, int64_t sequences);

  int64_t sequences() const { return sequences_; }
  uint64_t activation_bytes() const { return arena_.bytes(); }

  // Pinned memory of the next batch. The stream must be idle: the last batch may still be on its
  // way.
  Batch next_batch();
  // Uploads the batch; computes logits, and the loss of each token in nats.
  void forward();
  // The gradient of |scale| * (sum of the tokens' losses), and that sum itself, into weights'
  // gradient. Overwrites the logits.
  void backward(double scale);

  // Enqueue copies to the host, which stay valid until the stream is done.
  void read_losses(std::span<float> values);                 // sequences * context
  void read_logits(int64_t token, std::span<float> values);  // kVocabulary of them

  // What the last forward pass left between the layers, in its order: "embedding", then of each
  // layer "layers.0.attention" and "layers.0.output", both with the residual. Float32,
  // [tokens, width]; a backward pass leaves them as they are.
  struct Boundary {
    std::string name;
    keel_tensor tensor;
  };
  std::vector<Boundary> boundaries() const;
  const keel_tensor& losses() const { return losses_; }  // [tokens]

 private:
  // What a layer's forward pass leaves for its backward pass.
  struct Layer {
    keel_tensor input;  // [tokens, width]
    NormStatistics attention_statistics;
    Activation attention_input;     // normed; [tokens, width]
    keel_tensor query, key, value;  // [tokens, width], and kv_width twice
    keel_tensor logsumexp;          // [heads, tokens]
    Activation attended;            // [tokens, width]
    keel_tensor middle;             // the residual after attention
    NormStatistics mlp_statistics;
    Activation mlp_input;  // [tokens, width]
    keel_tensor up;        // [tokens, up_width]
    Activation hidden;     // [tokens, mlp_width]
  };
  // Of a layer's weights.
  struct LayerWeights {
    Norm attention_norm;
    Linear query, key, value, projection;
    Norm mlp_norm;
    Linear up, down;
  };

  NormStatistics statistics();
  Activation activation(int64_t columns, bool keep_value);
  Layer layer(const keel_tensor& input);
  LayerWeights layer_weights(const LayerIds& ids) const;
  void upload_constants();
  Attention::Tensors heads(const keel_tensor& query, const keel_tensor& key,
                           const keel_tensor& value, const keel_tensor& output) const;

  void embed();
  void embed_backward();
  void attend(const Layer& layer, const LayerWeights& weights);
  void attend_backward(const Layer& layer, const LayerWeights& weights);
  void run_mlp(const Layer& layer, const LayerWeights& weights, const keel_tensor& output);
  void run_mlp_backward(const Layer& layer, const LayerWeights& weights);

  keel::Stream& stream_;
  const Weights& weights_;
  const ModelConfig& config_;
  int64_t sequences_, tokens_;
  Arena arena_;
  keel::Buffer host_batch_, batch_;  // tokens, then labels

  keel_tensor token_ids_, labels_;  // [tokens], int32
  keel_tensor positions_;           // [tokens], int32: of each token in its sequence
  Attention attention_;
  Rotation rotation_;  // Llama's

  std::vector<LayerWeights> layer_weights_;
  std::vector<Layer> layers_;
  keel_tensor output_;  // of the last layer
  NormStatistics statistics_;
  Activation normed_;
  keel_tensor logits_, losses_, logsumexp_;

  keel_tensor scratch_;  // float32, the largest of any width: what is read at once and not again
  // Gradients. |residual| is that of the residual as far as the pass has come.
  struct Gradients {
    Activation residual, up, query, key, value;
    Activation logits;
    keel_tensor hidden, branch, attended;
    keel_tensor tokens;  // of the table, GPT-2's: its other part is the head's
  } d_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_NETWORK_H_
