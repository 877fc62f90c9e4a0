// SPDX-License-Identifier: Apache-2.0
// The model on one device: forward and backward pass of one batch.
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

// Activations for a fixed number of sequences, allocated once. Several networks may share weights.
// All members except the constructor only enqueue, so that one thread can keep many devices busy.
// Not thread-safe.
class Network {
 public:
  // |stream| and |weights| must outlive the network.
  Network(keel::Stream& stream, const Weights& weights, int64_t sequences);

  int64_t sequences() const { return sequences_; }
  uint64_t activation_bytes() const { return arena_.bytes(); }

  // Returns pinned memory for the next batch. The stream must be idle: the upload of the last batch
  // may still read this memory.
  Batch next_batch();
  // Uploads the batch; computes logits and the loss of each token in nats.
  void forward();
  // Writes the gradient of |scale| * (sum of the tokens' losses), and the sum itself, to the
  // weights' gradient. Overwrites the logits.
  void backward(double scale);

  // Enqueue copies to host memory, which must stay valid until the stream is done.
  void read_losses(std::span<float> values);                 // sequences * context
  void read_logits(int64_t token, std::span<float> values);  // kVocabulary values

  // Activations of the last forward pass between the layers, in order: "embedding", then for each
  // layer "layers.0.attention" and "layers.0.output", both including the residual. Float32,
  // [tokens, width]; a backward pass leaves them unchanged.
  struct Boundary {
    std::string name;
    keel_tensor tensor;
  };
  std::vector<Boundary> boundaries() const;
  const keel_tensor& losses() const { return losses_; }  // [tokens]

 private:
  // Results of a layer's forward pass that its backward pass needs.
  struct Layer {
    keel_tensor input;  // [tokens, width]
    NormStatistics attention_statistics;
    Activation attention_input;     // normed; [tokens, width]
    keel_tensor query, key, value;  // [tokens, width], then twice kv_width
    keel_tensor logsumexp;          // [heads, tokens]
    Activation attended;            // [tokens, width]
    keel_tensor middle;             // residual after attention
    NormStatistics mlp_statistics;
    Activation mlp_input;  // [tokens, width]
    keel_tensor up;        // [tokens, up_width]
    Activation hidden;     // [tokens, mlp_width]
  };
  // One layer's weights.
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
  keel_tensor positions_;           // [tokens], int32: positions in the sequence
  Attention attention_;
  Rotation rotation_;  // only Llama

  std::vector<LayerWeights> layer_weights_;
  std::vector<Layer> layers_;
  keel_tensor output_;  // of the last layer
  NormStatistics statistics_;
  Activation normed_;
  keel_tensor logits_, losses_, logsumexp_;

  keel_tensor scratch_;  // float32, largest width; read right after it is written
  // Gradients. |residual| is the gradient of the residual at the current point of the pass.
  struct Gradients {
    Activation residual, up, query, key, value;
    Activation logits;
    keel_tensor hidden, branch, attended;
    keel_tensor tokens;  // of GPT-2's token table, without the head's part
  } d_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_NETWORK_H_
