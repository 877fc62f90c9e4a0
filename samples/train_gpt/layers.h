// SPDX-License-Identifier: Apache-2.0
// What the model is made of, forward and backward: each function enqueues the operators of one
// layer. |d_x| is the gradient of x.
#ifndef KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_
#define KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_

#include <cstdint>
#include <initializer_list>
#include <keel/keel.hpp>
#include <optional>
#include <vector>

#include "samples/train_gpt/config.h"

namespace train_gpt {

// Owns the tensors of a model, each in memory of its own.
class Arena {
 public:
  explicit Arena(keel::Device device) : device_(device) {}

  keel_tensor take(keel_dtype dtype, std::initializer_list<int64_t> shape);
  keel_tensor floats(std::initializer_list<int64_t> shape) { return take(KEEL_FLOAT32, shape); }
  uint64_t bytes() const { return bytes_; }

 private:
  keel::Device device_;
  std::vector<keel::Buffer> buffers_;
  uint64_t bytes_ = 0;
};

// The same elements of a dense tensor as another shape; no more of them than it has.
keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape);

// A float32 tensor, and what products read of it: the tensor itself, or a copy in bfloat16.
struct Activation {
  keel_tensor value;
  keel_tensor operand;
};
// Makes the copy, where there is one.
void round_operand(const keel::Stream& stream, const Activation& x);

// y = x W' + b, of the rows of x.
struct Linear {
  keel_tensor weight;               // [outputs, inputs], of the products' dtype
  std::optional<keel_tensor> bias;  // [outputs], as weight
  keel_tensor weight_gradient;      // float32, as are the following
  std::optional<keel_tensor> bias_gradient;

  // |y| is float32.
  void forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y) const;
  // |d_y|'s operand is made here. |d_x| is float32; with |add|, its old content counts too.
  void backward(const keel::Stream& stream, const keel_tensor& x, const Activation& d_y,
                const keel_tensor& d_x, bool add = false) const;
};

// What the backward pass of a norm needs of the forward one; each [rows].
struct NormStatistics {
  keel_tensor mean;  // of layer norm alone
  keel_tensor rstd;
};

// Layer norm where it has a bias, RMS norm where not.
struct Norm {
  double epsilon = 0;
  keel_tensor gain;                 // [width], float32
  std::optional<keel_tensor> bias;  // [width]
  keel_tensor gain_gradient;
  std::optional<keel_tensor> bias_gradient;

  void forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y,
               const NormStatistics& statistics) const;
  // In place: |d| is the gradient of y, then that of x.
  void backward(const keel::Stream& stream, const keel_tensor& x, const NormStatistics& statistics,
                const keel_tensor& d) const;
};

// Rotary positions, of [tokens, heads, head_size].
struct Rotation {
  keel_tensor cosines, sines;  // [context, head_size / 2]
  keel_tensor positions;       // [tokens], int32

  // In place.
  void forward(const keel::Stream& stream, const keel_tensor& x) const;
  void backward(const keel::Stream& stream, const keel_tensor& d) const;

 private:
  void turn(const keel::Stream& stream, const keel_tensor& x, bool inverse) const;
};

// Causal attention within sequences.
struct Attention {
  keel_tensor boundaries;  // [sequences + 1], int32: the first token of each, and the end
  double scale = 1;

  struct Tensors {
    keel_tensor query, key, value, output;  // [tokens, heads or kv_heads, head_size]
  };
  void forward(const keel::Stream& stream, const Tensors& tensors,
               const keel_tensor& logsumexp) const;
  // |gradients|.output is given, the others are written.
  void backward(const keel::Stream& stream, const Tensors& tensors, const keel_tensor& logsumexp,
                const Tensors& gradients) const;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_
