// SPDX-License-Identifier: Apache-2.0
// Updates weights from gradients.
#ifndef KEEL_SAMPLES_TRAIN_GPT_OPTIMIZER_H_
#define KEEL_SAMPLES_TRAIN_GPT_OPTIMIZER_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>

#include "samples/train_gpt/weights.h"

namespace train_gpt {

struct OptimizerSettings {
  double learning_rate = 1e-3;  // the peak
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // for matrices
  double clip = 1.0;          // largest norm of the gradient; 0: no limit
  int64_t warmup = 100;       // steps
};

// Linear warm-up, then a cosine down to a tenth of the peak. |step| counts from 0.
double learning_rate(const OptimizerSettings& settings, int64_t step, int64_t steps);

// AdamW, with its moments on the device. Members enqueue on the stream. Not thread-safe.
class Optimizer {
 public:
  // |stream| and |layout| must outlive the optimizer.
  Optimizer(keel::Stream& stream, const ParameterLayout& layout);

  // Clips the gradient, which is overwritten, and updates the weights; |step| counts from 1.
  void update(Weights& weights, const OptimizerSettings& settings, double rate, int64_t step);

  const keel::Buffer& first_moment() const { return moments_[0]; }
  const keel::Buffer& second_moment() const { return moments_[1]; }
  // The spans hold layout.size() floats each and must stay valid until the stream is done.
  void upload(std::span<const float> first, std::span<const float> second);
  void download(std::span<float> first, std::span<float> second);
  // For the last gradient before clipping: its squared norm, and 1 in |found| if an element is NaN
  // or infinite, else 0.
  void read_norm(float* squared, int32_t* found);

 private:
  keel::Stream& stream_;
  const ParameterLayout& layout_;
  keel::Buffer moments_[2];
  keel::Buffer squared_norm_, found_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_OPTIMIZER_H_
