// SPDX-License-Identifier: Apache-2.0
// State and small operators that all layers of a stage share.
#ifndef KEEL_PARALLEL_LAYERS_H_
#define KEEL_PARALLEL_LAYERS_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/timeline.hpp>

#include "parallel/layout.h"
#include "parallel/store.h"
#include "parallel/tensor_group.h"
#include "parallel/tensors.h"

namespace keel::parallel {

// Borrowed by the layers of one stage. |tokens| = sequences * context, of a micro-batch.
struct LayerContext {
  const ModelShape& shape;
  Memory& memory;
  Store& store;
  TensorGroup& group;
  uint64_t seed = 0;
  int64_t sequences = 1;
  bool rounded = false;                     // products read bfloat16
  StepRecorder* const* recorder = nullptr;  // as ChannelSpans::recorder

  Stream& stream() const { return memory.stream(); }
  int64_t tokens() const { return sequences * shape.context; }
  // Enqueues |call|, which repeats a forward pass.
  template <typename Call>
  void recompute(const Call& call) const {
    record_within(recorder == nullptr ? nullptr : *recorder, stream(),
                  {.kind = SpanKind::kRecompute}, call);
  }
  int64_t own_rows() const { return group.own_rows(tokens()); }
  // The first of this rank's rows.
  int64_t first_row() const { return group.divides_rows() ? group.rank() * own_rows() : 0; }
  std::optional<keel_tensor> optional_value(size_t id) const {
    if (id == kNone) return std::nullopt;
    return store.value(id);
  }
  // A bias as products read it.
  std::optional<keel_tensor> optional_product_value(size_t id) const {
    if (id == kNone) return std::nullopt;
    return store.product_value(id);
  }
};

// Layer norm if |ids| has a bias, else RMS norm.
struct Norm {
  NormIds ids;
  struct Statistics {
    Tensor mean, rstd;  // [rows]; mean of layer norm alone
  };
  Tensor forward(const LayerContext& context, const keel_tensor& x, Statistics& statistics) const;
  // In place: |d| holds the gradient of y before the call, of x after. Adds the gradients of gain
  // and bias: they are sums over rows that the data pass computes anyway.
  void backward(const LayerContext& context, const keel_tensor& x, const Statistics& statistics,
                const keel_tensor& d) const;
};

// weight's gradient += d' x, and bias's += the sum of d's rows, if |bias| is not kNone.
void add_weight_gradient(const LayerContext& context, const keel_tensor& gradient,
                         const keel_tensor& d, const keel_tensor& x);
void add_bias_gradient(const LayerContext& context, size_t bias, const keel_tensor& d);

// Dropout is a function of the seed, the layer, the place in the layer, the sequence and the
// element: a recomputation, another mesh or another micro-batch drops the same elements. The
// counter of Philox is the element's index in all sequences of the training.
struct Dropout {
  int64_t key = 0;
  // y = residual + dropout(x + bias), for this rank's rows of a micro-batch that begins with
  // sequence |number|. y may be x.
  void forward(const LayerContext& context, uint64_t number, const keel_tensor& x,
               const std::optional<keel_tensor>& bias, const keel_tensor& residual,
               const keel_tensor& y) const;
  // The gradient of x; |d| itself without dropout.
  Tensor backward(const LayerContext& context, uint64_t number, const Tensor& d) const;

 private:
  int64_t offset(const LayerContext& context, uint64_t number) const;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_LAYERS_H_
