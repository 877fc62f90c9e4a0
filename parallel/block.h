// SPDX-License-Identifier: Apache-2.0
// One transformer layer: attention and MLP, each behind a norm and beside a residual.
//
//   middle = input + dropout(projection(attention(norm(input))))
//   output = middle + dropout(down(activation(up(norm(middle)))))
//
// query, key, value, gate, up are column-parallel, projection and down row-parallel
// (tensor_group.h): one pair of communications for each of the two lines.
//
// Recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Korthikanti et
// al., 2022), a choice for each layer; [n rows of all tokens, r = n or n/tp rows of this rank]:
//
//   none       keeps all that backward reads
//   selective  keeps no output of attention; runs attention again
//   full       keeps the input alone; runs the layer again, its communication too
#ifndef KEEL_PARALLEL_BLOCK_H_
#define KEEL_PARALLEL_BLOCK_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/engine.hpp>

#include "parallel/layers.h"

namespace keel::parallel {

// Positions of a micro-batch's tokens, on the device.
struct Positions {
  Tensor boundaries;      // [sequences + 1], int32: each sequence's first token, then the end
  Tensor of_token;        // [tokens], int32: position in the sequence
  Tensor cosines, sines;  // [context, head_size / 2]; Llama
};

class Block {
 public:
  // |layer| counts from the model's first.
  Block(const LayerContext& context, const Positions& positions, const BlockIds& ids, int64_t layer,
        Recompute recompute);

  // A micro-batch's tensors between the passes.
  struct Saved {
    uint64_t number = 0;  // the micro-batch's first sequence
    Tensor input;         // [r, width]
    Norm::Statistics attention_statistics, mlp_statistics;
    Tensor attention_input;    // [n, width], normed
    Tensor query, key, value;  // [n, width / tp], then twice [n, kv_width / tp]; tp: or uneven
    Tensor logsumexp;          // [heads / tp, n]
    Tensor attended;           // [n, width / tp]
    Tensor middle;             // [r, width]
    Tensor mlp_input;          // [n, width], normed
    Tensor up;                 // [n, mlp_width / tp], in Llama gate and up
    Tensor hidden;             // [n, mlp_width / tp]
    // Gradients that the weight pass reads, [n, ...].
    Tensor d_down, d_up, d_projection, d_query, d_key, d_value;
  };

  Tensor forward(Saved& saved, Tensor input, uint64_t number) const;
  // Takes the gradient of the output, returns that of the input.
  Tensor backward_data(Saved& saved, Tensor d) const;
  // Releases all of |saved|.
  void backward_weight(Saved& saved) const;

  size_t unit() const { return ids_.unit; }

 private:
  void attend(Saved& saved) const;
  void project_in(Saved& saved) const;
  void run_attention(Saved& saved) const;
  Tensor run_mlp(Saved& saved, bool output) const;
  Tensor mlp_backward(Saved& saved, const Tensor& d) const;
  Tensor attention_backward(Saved& saved, const Tensor& d) const;
  void rotate(const keel_tensor& x, int64_t heads, bool inverse) const;
  keel_tensor heads_of(const keel_tensor& x, int64_t heads) const;
  // Weight, bias and gradient of the MLP's first matrix; Llama's gate and up as one.
  keel_tensor up_weight() const;

  LayerContext context_;
  const Positions& positions_;
  BlockIds ids_;
  Recompute recompute_;
  Norm attention_norm_, mlp_norm_;
  Dropout attention_dropout_, mlp_dropout_;
  int64_t kv_heads_, heads_;  // of this rank
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_BLOCK_H_
