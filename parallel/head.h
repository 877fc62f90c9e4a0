// SPDX-License-Identifier: Apache-2.0
// The ends of a model: embedding, and final norm with head and loss. Tables are divided by rows of
// the vocabulary over axis tp (Megatron-LM, 2019).
//
//   embedding  each rank looks up its rows, others give 0; reduce
//   loss       l_t = log sum over own columns exp(logits): all_gather of one float a token, then
//              logsumexp = log sum_t exp(l_t); target: all_reduce of one float a token
//
// No rank ever has the logits of the whole vocabulary.
#ifndef KEEL_PARALLEL_HEAD_H_
#define KEEL_PARALLEL_HEAD_H_

#include <cstdint>
#include <keel/keel.hpp>

#include "parallel/block.h"
#include "parallel/layers.h"

namespace keel::parallel {

class Embedding {
 public:
  Embedding(const LayerContext& context, const Layout& layout, const Positions& positions);

  Tensor forward(const keel_tensor& ids) const;
  // Adds the gradients of both tables.
  void backward_weight(const keel_tensor& ids, Tensor d) const;

 private:
  void add_table_gradient(size_t table, const keel_tensor& d, const keel_tensor& ids,
                          int64_t first) const;
  keel_tensor own_positions() const;

  LayerContext context_;
  const Positions& positions_;
  size_t tokens_, places_;
  int64_t first_;  // row of the vocabulary
};

class Head {
 public:
  Head(const LayerContext& context, const Layout& layout);

  // A micro-batch's labels: of the whole vocabulary, as columns of this rank (-1 for others'), and
  // the rank that has the column (-1 for a label that does not count).
  struct Labels {
    keel_tensor whole, own, owner;  // [tokens], int32
  };
  struct Saved {
    Tensor input;  // [r, width]
    Norm::Statistics statistics;
    Tensor normed;             // [n, width]
    Tensor logits;             // [n, vocabulary / tp]; after backward_data() their gradient
    Tensor logsumexp, losses;  // [n]
  };
  // Fills Saved::losses.
  void forward(Saved& saved, Tensor input, const Labels& labels) const;
  Tensor backward_data(Saved& saved, const Labels& labels, double scale) const;
  void backward_weight(Saved& saved) const;

 private:
  LayerContext context_;
  Norm norm_;
  size_t weight_;
  int64_t first_ = 0;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_HEAD_H_
