// SPDX-License-Identifier: Apache-2.0
// A model as stages of layers, with the backward pass written out: the interface between models,
// pipeline schedules, optimizers and checkpoints.
//
// A Stage is a run of consecutive layers on one rank (of each tensor-parallel group). A schedule
// calls, for each micro-batch in an order of its choice:
//
//   first stage: stage.set_batch(slot, tokens, labels)     all stages that embed or compute a loss
//   other:       recv into stage.input(slot)
//   stage.forward(slot)                                    then send stage.output(slot)
//   other than last: recv into stage.output_gradient(slot)
//   stage.backward_data(slot)                              then send stage.input_gradient(slot)
//   stage.backward_weight(slot)                            any time later; ends the slot's use
//
// or stage.backward(slot) in the place of the last two.
//
// A slot is a number for the activations of one micro-batch in flight: from forward() or input()
// until backward_weight(), or until the end of discard().
#ifndef KEEL_PARALLEL_MODEL_HPP_
#define KEEL_PARALLEL_MODEL_HPP_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

// GPT-2: layer norms, learned positions, gelu, biases, one matrix for embedding and head. Llama:
// RMS norms, rotary positions, swiglu, key/value heads shared by query heads, no biases.
enum class Architecture { kGpt2, kLlama };

// Sizes of a whole model. A value.
struct ModelShape {
  Architecture architecture = Architecture::kGpt2;
  int64_t vocabulary = 256;
  int64_t layers = 4;
  int64_t width = 256;
  int64_t heads = 4;
  int64_t kv_heads = 4;  // fewer than heads only in Llama
  int64_t mlp_width = 1024;
  int64_t context = 256;  // tokens of a sequence
  double norm_epsilon = 1e-5;
  double rope_theta = 1e4;
  double dropout = 0;  // probability, after attention's and the MLP's last matrix

  bool is_llama() const { return architecture == Architecture::kLlama; }
  int64_t head_size() const { return width / heads; }
  int64_t kv_width() const { return kv_heads * head_size(); }

  std::string text() const;  // one line, equal for equal shapes
};
// Throws Error(KEEL_INVALID_ARGUMENT), naming the member, for sizes that fit no model or that
// |tensor_parts| ranks cannot divide.
void check(const ModelShape& shape, int64_t tensor_parts = 1);
// Operations of one token's forward and backward pass: two for each weight in a product, thrice;
// attention counts the half that the causal mask leaves.
double training_flops_per_token(const ModelShape& shape);

// A tensor of the model, and the part of it that this rank holds: all, or an interval of one axis.
// A shard is dense, row-major and float32.
struct Parameter {
  std::string name;            // unique in the model: "layers.0.query.weight"
  std::vector<int64_t> shape;  // of the whole tensor; a matrix is [outputs, inputs]
  int shard_axis = -1;         // -1: the rank holds all of it
  int64_t shard_begin = 0;     // interval on shard_axis
  int64_t shard_end = 0;
  size_t unit = 0;                // of its stage; see Stage::units()
  int64_t offset = 0;             // elements from the start of the unit
  float deviation = 0, mean = 0;  // of initial values
  bool decays = false;            // matrices, in AdamW
  // The tensor-parallel ranks hold partial sums of the gradient (sequence parallel: each has seen
  // its own tokens), to be added before the optimizer.
  bool partial_gradient = false;
  // A copy of a parameter of another stage (GPT-2's head, the embedding's table): their gradients
  // are to be added before the optimizer.
  bool tied = false;

  std::vector<int64_t> shard_shape() const;
  int64_t size() const;       // elements of the shard
  int64_t full_size() const;  // elements of the whole tensor
};

// The unit of sharding, prefetch and bucketing: the parameters of one layer, one after the other in
// a flat array of float32. The gradients have the same layout.
struct Unit {
  std::string name;                // "layers.0"
  std::vector<size_t> parameters;  // indexes into Stage::parameters()
  int64_t size = 0;                // elements, a multiple of kUnitAlignment; gaps are zeroes
  int64_t partial_end = 0;         // elements of parameters with partial_gradient, which come first
  int64_t matrices = 0;            // first element of the parameters that decay, which come last
  bool tied = false;               // holds a tied parameter, or the one that it is a copy of
};
inline constexpr int64_t kUnitAlignment = 64;  // elements

// A run of layers on one rank. All members only enqueue on the stage's stream. Not thread-safe.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual bool is_first() const = 0;  // embeds tokens
  virtual bool is_last() const = 0;   // computes the loss
  virtual int64_t first_layer() const = 0;
  virtual int64_t layers() const = 0;
  virtual Stream& stream() = 0;

  virtual const std::vector<Unit>& units() const = 0;
  virtual const std::vector<Parameter>& parameters() const = 0;

  // Rows and columns of input(), output() and their gradients: float32 [rows, width], where
  // sequence parallel gives each tensor-parallel rank its own rows.
  virtual int64_t boundary_rows() const = 0;
  virtual int64_t boundary_columns() const = 0;

  // Uploads a micro-batch's tokens and labels, of sequences * context each, for the first or last
  // stage; copies the spans. |number| counts the sequences of all steps: dropout is a function of
  // the number, the layer and the seed, so that a recomputation and any mesh drop the same.
  virtual void set_batch(size_t slot, std::span<const int32_t> tokens,
                         std::span<const int32_t> labels, uint64_t number) = 0;
  virtual keel_tensor input(size_t slot) = 0;            // except on the first stage
  virtual keel_tensor output(size_t slot) = 0;           // after forward(), except on the last
  virtual keel_tensor output_gradient(size_t slot) = 0;  // except on the last stage
  virtual keel_tensor input_gradient(size_t slot) = 0;   // after backward_data(), except on first

  virtual void forward(size_t slot) = 0;
  // Gradients of the input. On the last stage those of |scale| * (sum of the tokens' losses). May
  // release the output's gradient.
  virtual void backward_data(size_t slot, double scale) = 0;
  // Adds the weights' gradients to those of the step. Releases the slot.
  virtual void backward_weight(size_t slot) = 0;
  // Both, layer by layer: gradients are complete earlier and activations of few layers live at a
  // time. For schedules that leave nothing between the passes; the other members keep what
  // backward_weight() reads of all layers.
  virtual void backward(size_t slot, double scale) {
    backward_data(slot, scale);
    backward_weight(slot);
  }
  // Releases the slot of a forward pass without a backward pass.
  virtual void discard(size_t slot) = 0;
  // Losses of the micro-batch's tokens in nats, [tokens], between forward() and backward_weight().
  virtual keel_tensor losses(size_t slot) = 0;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_MODEL_HPP_
