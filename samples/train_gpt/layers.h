// SPDX-License-Identifier: Apache-2.0
// The layers of the model, forward and backward: each function enqueues the operators of one layer.
// |d_x| is the gradient of x.
#ifndef KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_
#define KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_

#include <cstdint>
#include <initializer_list>
#include <keel/keel.hpp>
#include <optional>
#include <vector>

#include "samples/train_gpt/config.h"

namespace train_gpt {

// Owns a model's tensors, each in a separate buffer.
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

// Returns the elements of a dense tensor in a new shape of at most as many elements.
keel_tensor reshaped(const keel_tensor& tensor, std::initializer_list<int64_t> shape);

// A float32 tensor, and the tensor that products read: the same tensor, or a bfloat16 copy.
struct Activation {
  keel_tensor value;
  keel_tensor operand;
};
// Enqueues the bfloat16 copy, if x has one.
void round_operand(const keel::Stream& stream, const Activation& x);

// y = x W' + b, for each row of x.
struct Linear {
  keel_tensor weight;               // [outputs, inputs], in the products' dtype
  std::optional<keel_tensor> bias;  // [outputs], like weight
  keel_tensor weight_gradient;      // float32, like the following
  std::optional<keel_tensor> bias_gradient;

  // |y| is float32.
  void forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y) const;
  // Also makes the operand of |d_y|. |d_x| is float32; with |add| the gradient is added to it.
  void backward(const keel::Stream& stream, const keel_tensor& x, const Activation& d_y,
                const keel_tensor& d_x, bool add = false) const;
};

// Results of a norm's forward pass that its backward pass needs; each [rows].
struct NormStatistics {
  keel_tensor mean;  // only for layer norm
  keel_tensor rstd;
};

// Layer norm if |bias| is set, else RMS norm.
struct Norm {
  double epsilon = 0;
  keel_tensor gain;                 // [width], float32
  std::optional<keel_tensor> bias;  // [width]
  keel_tensor gain_gradient;
  std::optional<keel_tensor> bias_gradient;

  void forward(const keel::Stream& stream, const keel_tensor& x, const keel_tensor& y,
               const NormStatistics& statistics) const;
  // In place: |d| holds the gradient of y before the call, the gradient of x after.
  void backward(const keel::Stream& stream, const keel_tensor& x, const NormStatistics& statistics,
                const keel_tensor& d) const;
};

// Rotary position embedding of [tokens, heads, head_size].
struct Rotation {
  keel_tensor cosines, sines;  // [context, head_size / 2]
  keel_tensor positions;       // [tokens], int32

  // Both work in place.
  void forward(const keel::Stream& stream, const keel_tensor& x) const;
  void backward(const keel::Stream& stream, const keel_tensor& d) const;

 private:
  void turn(const keel::Stream& stream, const keel_tensor& x, bool inverse) const;
};

// Causal attention within sequences.
struct Attention {
  keel_tensor boundaries;  // [sequences + 1], int32: each sequence's first token, then the end
  double scale = 1;

  struct Tensors {
    keel_tensor query, key, value, output;  // [tokens, heads or kv_heads, head_size]
  };
  void forward(const keel::Stream& stream, const Tensors& tensors,
               const keel_tensor& logsumexp) const;
  // Reads |gradients|.output; writes the other gradients.
  void backward(const keel::Stream& stream, const Tensors& tensors, const keel_tensor& logsumexp,
                const Tensors& gradients) const;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_LAYERS_H_
