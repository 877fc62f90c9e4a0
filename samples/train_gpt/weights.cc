// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/weights.h"

namespace train_gpt {

Weights::Weights(keel::Stream& stream, const ParameterLayout& layout, Precision precision)
    : stream_(stream),
      layout_(layout),
      precision_(precision),
      values_(keel::Buffer::of<float>(stream.device(), static_cast<uint64_t>(layout.size()))),
      gradient_(
          keel::Buffer::of<float>(stream.device(), static_cast<uint64_t>(layout.size()) + 1)) {
  if (precision == Precision::kBFloat16) {
    rounded_ =
        keel::Buffer::of<keel::bfloat16_t>(stream.device(), static_cast<uint64_t>(layout.size()));
  }
  stream_.fill(gradient_, 0.0F);  // zeroes the gaps between tensors, which are never written
}

void Weights::upload(std::span<const float> values) {
  stream_.upload(values_, values);
  refresh();
}

void Weights::download(std::span<float> values) {
  stream_.download(values, values_);
}

void Weights::download_gradient(std::span<float> values) {
  stream_.copy(keel::Device(), values.data(), stream_.device(), gradient_.data(),
               values.size_bytes());
}

void Weights::refresh() {
  if (precision_ == Precision::kFloat32) return;
  keel::ops::cast(stream_, {.x = values_.tensor<float>({layout_.size()}),
                            .y = rounded_.tensor<keel::bfloat16_t>({layout_.size()})});
}

keel_tensor Weights::loss() const {
  keel_tensor loss = gradient_.tensor<float>({1});
  loss.byte_offset = static_cast<uint64_t>(layout_.size()) * sizeof(float);
  return loss;
}

Linear Weights::linear(const LinearIds& ids) const {
  const bool is_rounded = precision_ == Precision::kBFloat16;
  const keel::Buffer& read = is_rounded ? rounded_ : values_;
  const keel_dtype dtype = is_rounded ? KEEL_BFLOAT16 : KEEL_FLOAT32;
  Linear linear;
  linear.weight = view(read, ids.weight, dtype);
  linear.weight_gradient = value_gradient(ids.weight);
  if (ids.bias != kNone) {
    linear.bias = view(read, ids.bias, dtype);
    linear.bias_gradient = value_gradient(ids.bias);
  }
  return linear;
}

Norm Weights::norm(const NormIds& ids) const {
  Norm norm;
  norm.epsilon = layout_.config().norm_epsilon;
  norm.gain = value(ids.gain);
  norm.gain_gradient = value_gradient(ids.gain);
  if (ids.bias != kNone) {
    norm.bias = value(ids.bias);
    norm.bias_gradient = value_gradient(ids.bias);
  }
  return norm;
}

keel_tensor Weights::view(const keel::Buffer& flat, size_t id, keel_dtype dtype) const {
  const Parameter& parameter = layout_.all()[id];
  keel_tensor tensor = keel::make_tensor(flat.data(), dtype, parameter.shape);
  const uint64_t element = dtype == KEEL_BFLOAT16 ? sizeof(keel::bfloat16_t) : sizeof(float);
  tensor.byte_offset = static_cast<uint64_t>(parameter.offset) * element;
  return tensor;
}

}  // namespace train_gpt
