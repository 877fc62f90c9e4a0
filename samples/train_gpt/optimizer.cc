// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace train_gpt {

double learning_rate(const OptimizerSettings& settings, int64_t step, int64_t steps) {
  const double warmup = static_cast<double>(step + 1) / static_cast<double>(settings.warmup + 1);
  const double progress = static_cast<double>(step) / static_cast<double>(steps);
  const double cosine = 0.55 + 0.45 * std::cos(std::numbers::pi * progress);
  return settings.learning_rate * std::min(1.0, warmup) * cosine;
}

Optimizer::Optimizer(keel::Stream& stream, const ParameterLayout& layout)
    : stream_(stream),
      layout_(layout),
      squared_norm_(keel::Buffer::of<float>(stream.device(), 1)),
      found_(keel::Buffer::of<int32_t>(stream.device(), 1)) {
  for (keel::Buffer& moment : moments_) {
    moment = keel::Buffer::of<float>(stream.device(), static_cast<uint64_t>(layout.size()));
    stream_.fill(moment, 0.0F);
  }
}

void Optimizer::update(Weights& weights, const OptimizerSettings& settings, double rate,
                       int64_t step) {
  const keel_tensor gradient = weights.gradient().tensor<float>({layout_.size()});
  const keel_tensor total = squared_norm_.tensor<float>({});
  keel::ops::sum_of_squares(stream_,
                            {.x = gradient, .total = total, .found = found_.tensor<int32_t>({})});
  if (settings.clip > 0) {
    keel::ops::clip(
        stream_,
        {.g = gradient, .sum_of_squares = total, .g_out = gradient, .max_norm = settings.clip});
  }
  const auto step_of = [&](int64_t first, int64_t count, double decay) {
    if (count == 0) return;
    const auto part = [&](const keel::Buffer& flat) {
      keel_tensor tensor = flat.tensor<float>({count});
      tensor.byte_offset = static_cast<uint64_t>(first) * sizeof(float);
      return tensor;
    };
    const keel_tensor p = part(weights.values());
    const keel_tensor m = part(first_moment());
    const keel_tensor v = part(second_moment());
    keel::ops::adamw(stream_, {.p = p,
                               .g = part(weights.gradient()),
                               .m = m,
                               .v = v,
                               .p_out = p,
                               .m_out = m,
                               .v_out = v,
                               .lr = rate,
                               .beta1 = settings.beta1,
                               .beta2 = settings.beta2,
                               .eps = settings.epsilon,
                               .weight_decay = decay,
                               .step = step});
  };
  step_of(0, layout_.matrices_size(), settings.weight_decay);
  step_of(layout_.matrices_size(), layout_.size() - layout_.matrices_size(), 0);
  weights.refresh();
}

void Optimizer::upload(std::span<const float> first, std::span<const float> second) {
  stream_.upload(moments_[0], first);
  stream_.upload(moments_[1], second);
}

void Optimizer::download(std::span<float> first, std::span<float> second) {
  stream_.download(first, moments_[0]);
  stream_.download(second, moments_[1]);
}

void Optimizer::read_norm(float* squared, int32_t* found) {
  stream_.copy(keel::Device(), squared, stream_.device(), squared_norm_.data(), sizeof(float));
  stream_.copy(keel::Device(), found, stream_.device(), found_.data(), sizeof(int32_t));
}

}  // namespace train_gpt
