// SPDX-License-Identifier: Apache-2.0
#include "parallel/testing/linear_stage.h"

#include <string>

namespace keel::parallel {

LinearStage::LinearStage(Stream& stream, int64_t first, int64_t count, int64_t total, int64_t rows,
                         int64_t width)
    : stream_(stream), first_(first), count_(count), total_(total), rows_(rows), width_(width) {
  const auto size = static_cast<uint64_t>(width * width);
  for (int64_t layer = first; layer < first + count; ++layer) {
    Parameter parameter;
    parameter.name = "layers." + std::to_string(layer) + ".weight";
    parameter.shape = {width, width};
    parameter.unit = units_.size();
    parameters_.push_back(parameter);
    units_.push_back({"layers." + std::to_string(layer), {parameters_.size() - 1}, width * width});
    weights_.push_back(Buffer::of<float>(stream.device(), size));
    weight_gradients_.push_back(Buffer::of<float>(stream.device(), size));
    // Small and different, so that sums in another order have other bits.
    std::vector<float>& values = uploads_.emplace_back(size);
    uint32_t state = static_cast<uint32_t>(layer) * 2654435761U + 1;
    for (float& value : values) {
      state = state * 1664525U + 1013904223U;
      value = (static_cast<float>(state >> 8) / 16777216.0F - 0.5F) * 0.3F;
    }
    stream.upload(weights_.back(), values);
    stream.fill(weight_gradients_.back(), 0.0F);
  }
}

LinearStage::~LinearStage() {
  if (keel_stream_synchronize(stream_.get(), KEEL_TIMEOUT_DEFAULT) == KEEL_OK) return;
  (void)keel_stream_recover(stream_.get(), KEEL_TIMEOUT_DEFAULT);  // waits for work that runs
}

LinearStage::Slot& LinearStage::at(size_t slot) {
  while (slots_.size() <= slot) {
    Slot& added = slots_.emplace_back();
    const auto size = static_cast<uint64_t>(rows_ * width_);
    for (int64_t layer = 0; layer <= count_; ++layer) {
      added.activations.push_back(Buffer::of<float>(stream_.device(), size));
      added.gradients.push_back(Buffer::of<float>(stream_.device(), size));
    }
    added.labels = Buffer::of<float>(stream_.device(), size);
  }
  return slots_[slot];
}

void LinearStage::upload(const Buffer& to, std::span<const int32_t> numbers) {
  std::vector<float>& values = uploads_.emplace_back();
  for (const int32_t number : numbers) values.push_back(static_cast<float>(number) * 0.01F);
  stream_.upload(to, values);
}

void LinearStage::set_batch(size_t slot, std::span<const int32_t> tokens,
                            std::span<const int32_t> labels, uint64_t /*number*/) {
  if (is_first()) upload(at(slot).activations.front(), tokens);
  if (is_last()) upload(at(slot).labels, labels);
}

void LinearStage::forward(size_t slot) {
  Slot& on = at(slot);
  for (int64_t layer = 0; layer < count_; ++layer) {
    ops::matmul(stream_, {.a = matrix(on.activations[layer]),
                          .b = weight(weights_[layer]),
                          .c = matrix(on.activations[layer + 1]),
                          .trans_b = true});
  }
}

void LinearStage::backward_data(size_t slot, double scale) {
  Slot& on = at(slot);
  if (is_last()) {
    ops::scale(stream_, {.x = matrix(on.labels), .y = matrix(on.gradients.back()), .alpha = scale});
  }
  for (int64_t layer = count_; layer-- > 0;) {
    ops::matmul(stream_, {.a = matrix(on.gradients[layer + 1]),
                          .b = weight(weights_[layer]),
                          .c = matrix(on.gradients[layer])});
  }
}

void LinearStage::backward_weight(size_t slot) {
  Slot& on = at(slot);
  for (int64_t layer = 0; layer < count_; ++layer) {
    ops::matmul(stream_, {.a = matrix(on.gradients[layer + 1]),
                          .b = matrix(on.activations[layer]),
                          .c = weight(weight_gradients_[layer]),
                          .trans_a = true,
                          .beta = 1.0});
  }
}

std::vector<float> LinearStage::gradients() {
  const auto size = static_cast<size_t>(width_ * width_);
  std::vector<float> all(size * weight_gradients_.size());
  for (size_t i = 0; i < weight_gradients_.size(); ++i) {
    stream_.download(std::span(all).subspan(i * size, size), weight_gradients_[i]);
  }
  stream_.synchronize();
  uploads_.clear();
  return all;
}

}  // namespace keel::parallel
