// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/network.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace train_gpt {

Network::Network(keel::Stream& stream, const Weights& weights, int64_t sequences)
    : stream_(stream),
      weights_(weights),
      config_(weights.layout().config()),
      sequences_(sequences),
      tokens_(sequences * config_.context),
      arena_(stream.device()),
      host_batch_(keel::Buffer::of<int32_t>(stream.device(), static_cast<uint64_t>(2 * tokens_),
                                            KEEL_MEMORY_PINNED)),
      batch_(keel::Buffer::of<int32_t>(stream.device(), static_cast<uint64_t>(2 * tokens_))) {
  token_ids_ = batch_.tensor<int32_t>({tokens_});
  labels_ = token_ids_;
  labels_.byte_offset = static_cast<uint64_t>(tokens_) * sizeof(int32_t);
  upload_constants();

  scratch_ = arena_.floats({tokens_, std::max(config_.width, config_.mlp_width)});
  keel_tensor residual = arena_.floats({tokens_, config_.width});
  for (const LayerIds& ids : weights.layout().ids().layers) {
    layer_weights_.push_back(layer_weights(ids));
    layers_.push_back(layer(residual));
    residual = arena_.floats({tokens_, config_.width});
  }
  output_ = residual;
  statistics_ = statistics();
  normed_ = activation(config_.width, /*keep_value=*/false);
  logits_ = arena_.floats({tokens_, kVocabulary});
  losses_ = arena_.floats({tokens_});
  logsumexp_ = arena_.floats({tokens_});

  d_.residual = activation(config_.width, /*keep_value=*/true);
  d_.up = activation(config_.up_width(), true);
  d_.query = activation(config_.width, true);
  d_.key = activation(config_.kv_width(), true);
  d_.value = activation(config_.kv_width(), true);
  // In place: the logits are not read again.
  d_.logits = {logits_, weights.precision() == Precision::kFloat32
                            ? logits_
                            : arena_.take(KEEL_BFLOAT16, {tokens_, kVocabulary})};
  d_.hidden = arena_.floats({tokens_, config_.mlp_width});
  d_.branch = arena_.floats({tokens_, config_.width});
  d_.attended = arena_.floats({tokens_, config_.width});
  if (!config_.is_llama()) d_.tokens = arena_.floats({kVocabulary, config_.width});
}

NormStatistics Network::statistics() {
  NormStatistics statistics;
  if (!config_.is_llama()) statistics.mean = arena_.floats({tokens_});
  statistics.rstd = arena_.floats({tokens_});
  return statistics;
}

// Values that are read only to be rounded share the scratch tensor.
Activation Network::activation(int64_t columns, bool keep_value) {
  if (weights_.precision() == Precision::kFloat32) {
    const keel_tensor value = arena_.floats({tokens_, columns});
    return {value, value};
  }
  return {keep_value ? arena_.floats({tokens_, columns}) : reshaped(scratch_, {tokens_, columns}),
          arena_.take(KEEL_BFLOAT16, {tokens_, columns})};
}

Network::Layer Network::layer(const keel_tensor& input) {
  Layer layer;
  layer.input = input;
  layer.attention_statistics = statistics();
  layer.attention_input = activation(config_.width, /*keep_value=*/false);
  layer.query = arena_.floats({tokens_, config_.width});
  layer.key = arena_.floats({tokens_, config_.kv_width()});
  layer.value = arena_.floats({tokens_, config_.kv_width()});
  layer.logsumexp = arena_.floats({config_.heads, tokens_});
  layer.attended = activation(config_.width, /*keep_value=*/true);
  layer.middle = arena_.floats({tokens_, config_.width});
  layer.mlp_statistics = statistics();
  layer.mlp_input = activation(config_.width, /*keep_value=*/false);
  layer.up = arena_.floats({tokens_, config_.up_width()});
  layer.hidden = activation(config_.mlp_width, /*keep_value=*/false);
  return layer;
}

Network::LayerWeights Network::layer_weights(const LayerIds& ids) const {
  return {weights_.norm(ids.attention_norm), weights_.linear(ids.query),
          weights_.linear(ids.key),          weights_.linear(ids.value),
          weights_.linear(ids.projection),   weights_.norm(ids.mlp_norm),
          weights_.linear(ids.up),           weights_.linear(ids.down)};
}

void Network::upload_constants() {
  std::vector<int32_t> positions(static_cast<size_t>(tokens_));
  std::vector<int32_t> boundaries(static_cast<size_t>(sequences_) + 1);
  for (int64_t i = 0; i < tokens_; ++i) {
    positions[static_cast<size_t>(i)] = static_cast<int32_t>(i % config_.context);
  }
  for (int64_t i = 0; i <= sequences_; ++i) {
    boundaries[static_cast<size_t>(i)] = static_cast<int32_t>(i * config_.context);
  }
  const auto upload = [&](const keel_tensor& tensor, const auto& values) {
    stream_.copy(stream_.device(), tensor.data, keel::Device(), values.data(),
                 values.size() * sizeof(values[0]));
  };
  positions_ = arena_.take(KEEL_INT32, {tokens_});
  attention_.boundaries = arena_.take(KEEL_INT32, {sequences_ + 1});
  attention_.scale = 1 / std::sqrt(static_cast<double>(config_.head_size()));
  upload(positions_, positions);
  upload(attention_.boundaries, boundaries);

  std::vector<float> cosines, sines;
  if (config_.is_llama()) {
    const int64_t pairs = config_.head_size() / 2;
    for (int64_t position = 0; position < config_.context; ++position) {
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const double angle =
            static_cast<double>(position) *
            std::pow(config_.rope_theta, -static_cast<double>(pair) / static_cast<double>(pairs));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    rotation_.cosines = arena_.floats({config_.context, pairs});
    rotation_.sines = arena_.floats({config_.context, pairs});
    rotation_.positions = positions_;
    upload(rotation_.cosines, cosines);
    upload(rotation_.sines, sines);
  }
  stream_.synchronize();  // the host's vectors end here
}

Batch Network::next_batch() {
  auto* ids = static_cast<int32_t*>(host_batch_.data());
  const auto count = static_cast<size_t>(tokens_);
  return {std::span(ids, count), std::span(ids + count, count)};
}

void Network::forward() {
  stream_.copy(stream_.device(), batch_.data(), keel::Device(), host_batch_.data(),
               host_batch_.size());
  embed();
  for (size_t i = 0; i < layers_.size(); ++i) {
    attend(layers_[i], layer_weights_[i]);
    run_mlp(layers_[i], layer_weights_[i], i + 1 < layers_.size() ? layers_[i + 1].input : output_);
  }
  const ModelIds& ids = weights_.layout().ids();
  weights_.norm(ids.norm).forward(stream_, output_, normed_.value, statistics_);
  round_operand(stream_, normed_);
  weights_.linear(ids.head).forward(stream_, normed_.operand, logits_);
  keel::ops::cross_entropy(
      stream_, {.logits = logits_, .labels = labels_, .loss = losses_, .logsumexp = logsumexp_});
}

void Network::backward(double scale) {
  keel::ops::sum(stream_, {.x = reshaped(losses_, {tokens_, 1}), .y = weights_.loss(), .axis = 0});
  keel::ops::cross_entropy_backward(stream_, {.logits = logits_,
                                              .labels = labels_,
                                              .logsumexp = logsumexp_,
                                              .dlogits = logits_,
                                              .scale = scale});
  const ModelIds& ids = weights_.layout().ids();
  weights_.linear(ids.head).backward(stream_, normed_.operand, d_.logits, d_.residual.value);
  weights_.norm(ids.norm).backward(stream_, output_, statistics_, d_.residual.value);
  for (size_t i = layers_.size(); i-- > 0;) {
    run_mlp_backward(layers_[i], layer_weights_[i]);
    attend_backward(layers_[i], layer_weights_[i]);
  }
  embed_backward();
}

// ---- embeddings

void Network::embed() {
  const ModelIds& ids = weights_.layout().ids();
  const keel_tensor& x = layers_[0].input;
  keel::ops::embedding(stream_,
                       {.table = weights_.value(ids.tokens), .indices = token_ids_, .out = x});
  if (config_.is_llama()) return;
  const keel_tensor places = reshaped(scratch_, {tokens_, config_.width});
  keel::ops::embedding(
      stream_, {.table = weights_.value(ids.positions), .indices = positions_, .out = places});
  keel::ops::add(stream_, {.a = x, .b = places, .c = x});
}

void Network::embed_backward() {
  const ModelIds& ids = weights_.layout().ids();
  const keel_tensor& d = d_.residual.value;
  const keel_tensor gradient = weights_.value_gradient(ids.tokens);
  if (config_.is_llama()) {
    keel::ops::embedding_backward(stream_, {.dout = d, .indices = token_ids_, .dtable = gradient});
    return;
  }
  // The table is also the head's weight, whose gradient was written earlier.
  keel::ops::embedding_backward(stream_, {.dout = d, .indices = token_ids_, .dtable = d_.tokens});
  keel::ops::add(stream_, {.a = gradient, .b = d_.tokens, .c = gradient});
  keel::ops::embedding_backward(
      stream_,
      {.dout = d, .indices = positions_, .dtable = weights_.value_gradient(ids.positions)});
}

// ---- attention: middle = input + projection(attention(norm(input)))

Attention::Tensors Network::heads(const keel_tensor& query, const keel_tensor& key,
                                  const keel_tensor& value, const keel_tensor& output) const {
  const int64_t size = config_.head_size();
  return {reshaped(query, {tokens_, config_.heads, size}),
          reshaped(key, {tokens_, config_.kv_heads, size}),
          reshaped(value, {tokens_, config_.kv_heads, size}),
          reshaped(output, {tokens_, config_.heads, size})};
}

void Network::attend(const Layer& layer, const LayerWeights& weights) {
  weights.attention_norm.forward(stream_, layer.input, layer.attention_input.value,
                                 layer.attention_statistics);
  round_operand(stream_, layer.attention_input);
  const keel_tensor& x = layer.attention_input.operand;
  weights.query.forward(stream_, x, layer.query);
  weights.key.forward(stream_, x, layer.key);
  weights.value.forward(stream_, x, layer.value);
  const Attention::Tensors tensors =
      heads(layer.query, layer.key, layer.value, layer.attended.value);
  if (config_.is_llama()) {
    rotation_.forward(stream_, tensors.query);
    rotation_.forward(stream_, tensors.key);
  }
  attention_.forward(stream_, tensors, layer.logsumexp);
  round_operand(stream_, layer.attended);
  const keel_tensor projected = reshaped(scratch_, {tokens_, config_.width});
  weights.projection.forward(stream_, layer.attended.operand, projected);
  keel::ops::add(stream_, {.a = layer.input, .b = projected, .c = layer.middle});
}

void Network::attend_backward(const Layer& layer, const LayerWeights& weights) {
  weights.projection.backward(stream_, layer.attended.operand, d_.residual, d_.attended);
  const Attention::Tensors gradients =
      heads(d_.query.value, d_.key.value, d_.value.value, d_.attended);
  attention_.backward(stream_, heads(layer.query, layer.key, layer.value, layer.attended.value),
                      layer.logsumexp, gradients);
  if (config_.is_llama()) {
    rotation_.backward(stream_, gradients.query);
    rotation_.backward(stream_, gradients.key);
  }
  const keel_tensor& x = layer.attention_input.operand;
  weights.query.backward(stream_, x, d_.query, d_.branch);
  weights.key.backward(stream_, x, d_.key, d_.branch, /*add=*/true);
  weights.value.backward(stream_, x, d_.value, d_.branch, /*add=*/true);
  weights.attention_norm.backward(stream_, layer.input, layer.attention_statistics, d_.branch);
  keel::ops::add(stream_, {.a = d_.residual.value, .b = d_.branch, .c = d_.residual.value});
}

// ---- MLP: output = middle + down(activation(up(norm(middle))))

void Network::run_mlp(const Layer& layer, const LayerWeights& weights, const keel_tensor& output) {
  weights.mlp_norm.forward(stream_, layer.middle, layer.mlp_input.value, layer.mlp_statistics);
  round_operand(stream_, layer.mlp_input);
  weights.up.forward(stream_, layer.mlp_input.operand, layer.up);
  if (config_.is_llama()) {
    keel::ops::swiglu(stream_, {.x = layer.up, .y = layer.hidden.value});
  } else {
    keel::ops::gelu(stream_, {.x = layer.up, .y = layer.hidden.value});
  }
  round_operand(stream_, layer.hidden);
  const keel_tensor branch = reshaped(scratch_, {tokens_, config_.width});
  weights.down.forward(stream_, layer.hidden.operand, branch);
  keel::ops::add(stream_, {.a = layer.middle, .b = branch, .c = output});
}

void Network::run_mlp_backward(const Layer& layer, const LayerWeights& weights) {
  weights.down.backward(stream_, layer.hidden.operand, d_.residual, d_.hidden);
  if (config_.is_llama()) {
    keel::ops::swiglu_backward(stream_, {.x = layer.up, .dy = d_.hidden, .dx = d_.up.value});
  } else {
    keel::ops::gelu_backward(stream_, {.x = layer.up, .dy = d_.hidden, .dx = d_.up.value});
  }
  weights.up.backward(stream_, layer.mlp_input.operand, d_.up, d_.branch);
  weights.mlp_norm.backward(stream_, layer.middle, layer.mlp_statistics, d_.branch);
  keel::ops::add(stream_, {.a = d_.residual.value, .b = d_.branch, .c = d_.residual.value});
}

// ---- results

void Network::read_losses(std::span<float> values) {
  stream_.copy(keel::Device(), values.data(), stream_.device(), losses_.data, values.size_bytes());
}

std::vector<Network::Boundary> Network::boundaries() const {
  std::vector<Boundary> boundaries = {{"embedding", layers_[0].input}};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    boundaries.push_back({layer + "attention", layers_[i].middle});
    boundaries.push_back(
        {layer + "output", i + 1 < layers_.size() ? layers_[i + 1].input : output_});
  }
  return boundaries;
}

void Network::read_logits(int64_t token, std::span<float> values) {
  const auto* row = static_cast<const float*>(logits_.data) + token * kVocabulary;
  stream_.copy(keel::Device(), values.data(), stream_.device(), row, values.size_bytes());
}

}  // namespace train_gpt
