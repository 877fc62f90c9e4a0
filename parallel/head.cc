// SPDX-License-Identifier: Apache-2.0
#include "parallel/head.h"

#include <utility>

namespace keel::parallel {

Embedding::Embedding(const LayerContext& context, const Layout& layout, const Positions& positions)
    : context_(context),
      positions_(positions),
      tokens_(layout.tokens),
      places_(layout.positions),
      first_(layout.parameters[layout.tokens].shard_begin) {}

keel_tensor Embedding::own_positions() const {
  return elements_of(positions_.of_token, context_.first_row(), context_.own_rows());
}

Tensor Embedding::forward(const keel_tensor& ids) const {
  const int64_t width = context_.shape.width;
  Tensor partial = context_.memory.take({context_.tokens(), width});
  ops::embedding(
      context_.stream(),
      {.table = context_.store.value(tokens_), .indices = ids, .out = partial, .first = first_});
  Tensor x = context_.group.reduce(std::move(partial));
  if (places_ == kNone) return x;
  const Tensor places = context_.memory.take({context_.own_rows(), width});
  ops::embedding(
      context_.stream(),
      {.table = context_.store.value(places_), .indices = own_positions(), .out = places});
  ops::add(context_.stream(), {.a = x, .b = places, .c = x});
  return x;
}

void Embedding::add_table_gradient(size_t table, const keel_tensor& d, const keel_tensor& ids,
                                   int64_t first) const {
  const keel_tensor gradient = context_.store.gradient(table);
  const Tensor part = context_.memory.take({gradient.shape[0], gradient.shape[1]});
  ops::embedding_backward(context_.stream(),
                          {.dout = d, .indices = ids, .dtable = part, .first = first});
  ops::add(context_.stream(), {.a = gradient, .b = part, .c = gradient});
}

void Embedding::backward_weight(const keel_tensor& ids, Tensor d) const {
  if (places_ != kNone) add_table_gradient(places_, d, own_positions(), 0);
  const Tensor all = context_.group.gather_products(std::move(d), {});
  add_table_gradient(tokens_, all, ids, first_);
}

Head::Head(const LayerContext& context, const Layout& layout)
    : context_(context),
      norm_{layout.norm},
      weight_(layout.head),
      first_(layout.parameters[layout.head].shard_begin) {}

void Head::forward(Saved& saved, Tensor input, const Labels& labels) const {
  Memory& memory = context_.memory;
  const Stream& stream = context_.stream();
  const int64_t n = context_.tokens();
  saved.input = std::move(input);
  const keel_tensor weight = context_.store.product_value(weight_);
  saved.logits = memory.take({n, weight.shape[0]});
  saved.losses = memory.take({n});
  saved.logsumexp = memory.take({n});
  Tensor normed = norm_.forward(context_, saved.input, saved.statistics);
  saved.normed =
      context_.group.gather_products(std::move(normed), {{weight, std::nullopt, saved.logits}});
  if (context_.group.size() == 1) {
    ops::cross_entropy(stream, {.logits = saved.logits,
                                .labels = labels.whole,
                                .loss = saved.losses,
                                .logsumexp = saved.logsumexp});
    return;
  }
  // The owner's loss within its shard, 0 elsewhere; then the loss of the shards among each other,
  // whose "logits" are the shards' logsumexp.
  const int64_t ranks = context_.group.size();
  const Tensor within = memory.take({n}), own = memory.take({n});
  ops::cross_entropy(
      stream, {.logits = saved.logits, .labels = labels.own, .loss = within, .logsumexp = own});
  const Tensor gathered = memory.take({ranks, n}), columns = memory.take({n, ranks});
  const Channel& channel = context_.group.channel();
  channel.all_gather(own.view().data, gathered.view().data, n, stream);
  channel.all_reduce(within.view().data, n, stream);
  ops::transpose(stream, {.x = gathered, .y = columns, .order = 0x10});
  ops::cross_entropy(stream, {.logits = columns,
                              .labels = labels.owner,
                              .loss = saved.losses,
                              .logsumexp = saved.logsumexp});
  ops::add(stream, {.a = saved.losses, .b = within, .c = saved.losses});
}

Tensor Head::backward_data(Saved& saved, const Labels& labels, double scale) const {
  const Stream& stream = context_.stream();
  if (context_.group.size() == 1) {
    ops::cross_entropy_backward(stream, {.logits = saved.logits,
                                         .labels = labels.whole,
                                         .logsumexp = saved.logsumexp,
                                         .dlogits = saved.logits,
                                         .scale = scale});
  } else {
    ops::cross_entropy_shard_backward(stream, {.logits = saved.logits,
                                               .labels = labels.whole,
                                               .logsumexp = saved.logsumexp,
                                               .dlogits = saved.logits,
                                               .scale = scale,
                                               .first = first_});
  }
  Tensor d = context_.group.products_reduce(
      {{saved.logits, context_.store.product_value(weight_), /*transposed=*/false}},
      context_.shape.width);
  norm_.backward(context_, saved.input, saved.statistics, d);
  saved.input.reset();
  return d;
}

void Head::backward_weight(Saved& saved) const {
  add_weight_gradient(context_, context_.store.gradient(weight_), saved.logits, saved.normed);
  saved = Saved();
}

}  // namespace keel::parallel
