// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/model.h"

namespace mixed_training {
namespace {

uint64_t bytes(int64_t count) {
  return static_cast<uint64_t>(count) * sizeof(float);  // int32 has the same size
}

keel::Buffer floats(keel::Device device, int64_t count) {
  return keel::Buffer::of<float>(device, static_cast<uint64_t>(count));
}

}  // namespace

Model::Model(keel::Device device, const ParameterLayout& layout, int64_t max_rows)
    : layout_(layout),
      max_rows_(max_rows),
      stream_(device),
      parameters_(floats(device, layout.size())),
      gradient_(floats(device, layout.size() + 1)),
      moment1_(floats(device, layout.size())),
      moment2_(floats(device, layout.size())),
      host_batch_(device, KEEL_MEMORY_PINNED, bytes(max_rows * (kContext + 1))),
      batch_(device, KEEL_MEMORY_DEVICE, host_batch_.size()),
      embedded_(floats(device, max_rows * kContext * kEmbedding)),
      linear1_(floats(device, max_rows * layout.hidden())),
      hidden1_(floats(device, max_rows * layout.hidden())),
      linear2_(floats(device, max_rows * layout.hidden())),
      hidden2_(floats(device, max_rows * layout.hidden())),
      logits_(floats(device, max_rows * kVocabulary)),
      losses_(floats(device, max_rows)),
      logsumexp_(floats(device, max_rows)),
      d_embedded_(floats(device, max_rows * kContext * kEmbedding)),
      d_hidden1_(floats(device, max_rows * layout.hidden())),
      d_hidden2_(floats(device, max_rows * layout.hidden())),
      rows_(max_rows),
      views_(make_views(max_rows)) {
  stream_.fill(moment1_, 0.0F);
  stream_.fill(moment2_, 0.0F);
}

Model::Views Model::make_views(int64_t rows) const {
  const int64_t hidden = layout_.hidden();
  Views views;
  views.contexts = batch_.tensor<int32_t>({rows * kContext});
  views.labels = batch_.tensor<int32_t>({rows});
  views.labels.byte_offset = bytes(rows * kContext);
  views.embedded = embedded_.tensor<float>({rows * kContext, kEmbedding});
  views.d_embedded = d_embedded_.tensor<float>({rows * kContext, kEmbedding});
  views.input = embedded_.tensor<float>({rows, kContext * kEmbedding});
  views.d_input = d_embedded_.tensor<float>({rows, kContext * kEmbedding});
  views.linear1 = linear1_.tensor<float>({rows, hidden});
  views.hidden1 = hidden1_.tensor<float>({rows, hidden});
  views.d_hidden1 = d_hidden1_.tensor<float>({rows, hidden});
  views.linear2 = linear2_.tensor<float>({rows, hidden});
  views.hidden2 = hidden2_.tensor<float>({rows, hidden});
  views.d_hidden2 = d_hidden2_.tensor<float>({rows, hidden});
  views.logits = logits_.tensor<float>({rows, kVocabulary});
  views.losses = losses_.tensor<float>({rows});
  views.logsumexp = logsumexp_.tensor<float>({rows});
  views.losses_column = losses_.tensor<float>({rows, 1});
  views.loss = gradient_.tensor<float>({1});
  views.loss.byte_offset = bytes(layout_.size());
  return views;
}

void Model::load(std::span<const float> values) {
  stream_.upload(parameters_, values);
}

Batch Model::next_batch(int64_t rows) {
  if (rows != rows_) {
    rows_ = rows;
    views_ = make_views(rows);
  }
  auto* tokens = static_cast<int32_t*>(host_batch_.data());
  return {std::span(tokens, static_cast<size_t>(rows * kContext)),
          std::span(tokens + rows * kContext, static_cast<size_t>(rows))};
}

void Model::forward() {
  const Views& v = views_;
  stream_.copy(stream_.device(), batch_.data(), keel::Device(), host_batch_.data(),
               bytes(rows_ * (kContext + 1)));
  keel::ops::embedding(stream_, {.table = layout_.view(parameters_, kEmbeddingTable),
                                 .indices = v.contexts,
                                 .out = v.embedded});
  linear(v.input, kWeight1, kBias1, v.linear1);
  keel::ops::gelu(stream_, {.x = v.linear1, .y = v.hidden1});
  linear(v.hidden1, kWeight2, kBias2, v.linear2);
  keel::ops::gelu(stream_, {.x = v.linear2, .y = v.hidden2});
  linear(v.hidden2, kWeight3, kBias3, v.logits);
  keel::ops::cross_entropy(
      stream_,
      {.logits = v.logits, .labels = v.labels, .loss = v.losses, .logsumexp = v.logsumexp});
}

void Model::backward(double scale) {
  const Views& v = views_;
  keel::ops::sum(stream_, {.x = v.losses_column, .y = v.loss, .axis = 0});
  const keel_tensor& d_logits = v.logits;  // in place: the logits are not read again
  keel::ops::cross_entropy_backward(stream_, {.logits = v.logits,
                                              .labels = v.labels,
                                              .logsumexp = v.logsumexp,
                                              .dlogits = d_logits,
                                              .scale = scale});
  linear_backward(v.hidden2, d_logits, kWeight3, kBias3, v.d_hidden2);
  keel::ops::gelu_backward(stream_, {.x = v.linear2, .dy = v.d_hidden2, .dx = v.d_hidden2});
  linear_backward(v.hidden1, v.d_hidden2, kWeight2, kBias2, v.d_hidden1);
  keel::ops::gelu_backward(stream_, {.x = v.linear1, .dy = v.d_hidden1, .dx = v.d_hidden1});
  linear_backward(v.input, v.d_hidden1, kWeight1, kBias1, v.d_input);
  keel::ops::embedding_backward(stream_, {.dout = v.d_embedded,
                                          .indices = v.contexts,
                                          .dtable = layout_.view(gradient_, kEmbeddingTable)});
}

void Model::update(const AdamW& settings) {
  const auto flat = [&](const keel::Buffer& buffer) {
    return buffer.tensor<float>({layout_.size()});
  };
  const keel_tensor p = flat(parameters_);
  const keel_tensor g = flat(gradient_);
  const keel_tensor m = flat(moment1_);
  const keel_tensor v = flat(moment2_);
  keel::ops::adamw(stream_, {.p = p,
                             .g = g,
                             .m = m,
                             .v = v,
                             .p_out = p,
                             .m_out = m,
                             .v_out = v,
                             .lr = settings.learning_rate,
                             .beta1 = settings.beta1,
                             .beta2 = settings.beta2,
                             .eps = settings.epsilon,
                             .weight_decay = settings.weight_decay,
                             .step = settings.step});
}

void Model::linear(const keel_tensor& x, ParameterId weight, ParameterId bias,
                   const keel_tensor& y) {
  keel::ops::matmul(stream_, {.a = x,
                              .b = layout_.view(parameters_, weight),
                              .bias = layout_.view(parameters_, bias),
                              .c = y});
}

// dW = x' dy, db = sum of dy's rows, dx = dy W'.
void Model::linear_backward(const keel_tensor& x, const keel_tensor& dy, ParameterId weight,
                            ParameterId bias, const keel_tensor& dx) {
  keel::ops::matmul(stream_,
                    {.a = x, .b = dy, .c = layout_.view(gradient_, weight), .trans_a = true});
  keel::ops::sum(stream_, {.x = dy, .y = layout_.view(gradient_, bias), .axis = 0});
  keel::ops::matmul(stream_,
                    {.a = dy, .b = layout_.view(parameters_, weight), .c = dx, .trans_b = true});
}

void Model::read_gradient(std::span<float> values) {
  read(gradient_.tensor<float>({layout_.size()}), values);
}

void Model::read_loss(float* value) {
  read(views_.loss, std::span(value, 1));
}

void Model::read_row_losses(std::span<float> values) {
  read(views_.losses, values);
}

void Model::read_logits(std::span<float> values) {
  read(views_.logits, values);
}

void Model::read(const keel_tensor& source, std::span<float> values) {
  stream_.copy(keel::Device(), values.data(), stream_.device(),
               static_cast<const std::byte*>(source.data) + source.byte_offset,
               values.size_bytes());
}

}  // namespace mixed_training
