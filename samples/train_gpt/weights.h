// SPDX-License-Identifier: Apache-2.0
// The weights of a model on one device, with their gradients.
#ifndef KEEL_SAMPLES_TRAIN_GPT_WEIGHTS_H_
#define KEEL_SAMPLES_TRAIN_GPT_WEIGHTS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>

#include "samples/train_gpt/layers.h"
#include "samples/train_gpt/parameters.h"

namespace train_gpt {

// Main weights and gradients are float32. If products use bfloat16, they read copies; refresh()
// updates the copies of all weights at once. Members enqueue on the stream. Not thread-safe.
class Weights {
 public:
  // |stream| and |layout| must outlive the weights.
  Weights(keel::Stream& stream, const ParameterLayout& layout, Precision precision);

  const ParameterLayout& layout() const { return layout_; }
  Precision precision() const { return precision_; }

  // The spans hold layout().size() floats and must stay valid until the stream is done.
  void upload(std::span<const float> values);
  void download(std::span<float> values);
  void download_gradient(std::span<float> values);
  // Call after any change of the main weights.
  void refresh();

  const keel::Buffer& values() const { return values_; }
  // layout().size() floats, then the batch's loss: one collective sums both.
  const keel::Buffer& gradient() const { return gradient_; }
  keel_tensor loss() const;

  // Return views. In the latter two, parameters that |ids| lacks are unset.
  keel_tensor value(size_t id) const { return view(values_, id); }
  keel_tensor value_gradient(size_t id) const { return view(gradient_, id); }
  Linear linear(const LinearIds& ids) const;
  Norm norm(const NormIds& ids) const;

 private:
  keel_tensor view(const keel::Buffer& flat, size_t id, keel_dtype dtype = KEEL_FLOAT32) const;

  keel::Stream& stream_;
  const ParameterLayout& layout_;
  Precision precision_;
  keel::Buffer values_, gradient_;
  keel::Buffer rounded_;  // bfloat16; empty if products read float32
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_WEIGHTS_H_
