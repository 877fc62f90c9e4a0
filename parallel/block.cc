// SPDX-License-Identifier: Apache-2.0
#include "parallel/block.h"

#include <cmath>
#include <utility>

namespace keel::parallel {
namespace {

Tensor sum_of(const LayerContext& context, const Tensor& a, const Tensor& b) {
  // |b| is a branch's gradient that nothing else reads.
  ops::add(context.stream(), {.a = a, .b = b, .c = b});
  return b;
}

}  // namespace

Block::Block(const LayerContext& context, const Positions& positions, const BlockIds& ids,
             int64_t layer, Recompute recompute)
    : context_(context),
      positions_(positions),
      ids_(ids),
      recompute_(recompute),
      attention_norm_{ids.attention_norm},
      mlp_norm_{ids.mlp_norm},
      kv_heads_(
          part_of(context.shape.kv_heads, context.group.rank(), context.group.size()).count()),
      heads_(kv_heads_ * (context.shape.heads / context.shape.kv_heads)) {
  // Two keys a layer; the odd factor spreads seeds that are neighbours.
  const uint64_t key = context.seed * 0x9e3779b97f4a7c15 + 2 * static_cast<uint64_t>(layer);
  attention_dropout_.key = static_cast<int64_t>(key);
  mlp_dropout_.key = static_cast<int64_t>(key + 1);
}

keel_tensor Block::heads_of(const keel_tensor& x, int64_t heads) const {
  return reshaped(x, {x.shape[0], heads, context_.shape.head_size()});
}

// Pairs are elements i and i + head_size / 2, as in weights in the Hugging Face layout.
void Block::rotate(const keel_tensor& x, int64_t heads, bool inverse) const {
  if (!context_.shape.is_llama()) return;
  const keel_tensor view = heads_of(x, heads);
  ops::rope(context_.stream(), {.x = view,
                                .cos = positions_.cosines,
                                .sin = positions_.sines,
                                .positions = positions_.of_token,
                                .y = view,
                                .inverse = inverse});
}

keel_tensor Block::up_weight() const {
  Store& store = context_.store;
  return ids_.gate.weight == kNone ? store.product_value(ids_.up.weight)
                                   : store.product_value_pair(ids_.gate.weight, ids_.up.weight);
}

// ---- forward

Tensor Block::forward(Saved& saved, Tensor input, uint64_t number) const {
  saved.input = std::move(input);
  saved.number = number;
  attend(saved);
  Tensor output = run_mlp(saved, /*output=*/true);
  if (recompute_ == Recompute::kFull) {
    Saved kept;
    kept.number = number;
    kept.input = std::move(saved.input);
    saved = std::move(kept);
  } else if (recompute_ == Recompute::kSelective) {
    saved.attended.reset();
    saved.logsumexp.reset();
  }
  return output;
}

void Block::project_in(Saved& saved) const {
  Store& store = context_.store;
  Memory& memory = context_.memory;
  const int64_t n = context_.tokens(), head = context_.shape.head_size();
  saved.query = memory.take({n, heads_ * head});
  saved.key = memory.take({n, kv_heads_ * head});
  saved.value = memory.take({n, kv_heads_ * head});
  const auto product = [&](const LinearIds& ids, const Tensor& y) {
    return Product{store.product_value(ids.weight), context_.optional_product_value(ids.bias), y};
  };
  Tensor normed = attention_norm_.forward(context_, saved.input, saved.attention_statistics);
  saved.attention_input = context_.group.gather_products(
      std::move(normed), {product(ids_.query, saved.query), product(ids_.key, saved.key),
                          product(ids_.value, saved.value)});
  rotate(saved.query, heads_, /*inverse=*/false);
  rotate(saved.key, kv_heads_, /*inverse=*/false);
}

void Block::run_attention(Saved& saved) const {
  const int64_t n = context_.tokens(), head = context_.shape.head_size();
  saved.attended = context_.memory.take({n, heads_ * head});
  saved.logsumexp = context_.memory.take({heads_, n});
  ops::attention(context_.stream(), {.q = heads_of(saved.query, heads_),
                                     .k = heads_of(saved.key, kv_heads_),
                                     .v = heads_of(saved.value, kv_heads_),
                                     .cu_seqlens_q = positions_.boundaries,
                                     .cu_seqlens_k = positions_.boundaries,
                                     .out = heads_of(saved.attended, heads_),
                                     .logsumexp = saved.logsumexp,
                                     .scale = 1 / std::sqrt(static_cast<double>(head)),
                                     .causal = true});
}

void Block::attend(Saved& saved) const {
  project_in(saved);
  run_attention(saved);
  saved.middle = context_.group.products_reduce(
      {{saved.attended, context_.store.product_value(ids_.projection.weight),
        /*transposed=*/true}},
      context_.shape.width);
  attention_dropout_.forward(context_, saved.number, saved.middle,
                             context_.optional_value(ids_.projection.bias), saved.input,
                             saved.middle);
}

Tensor Block::run_mlp(Saved& saved, bool output) const {
  Memory& memory = context_.memory;
  const int64_t n = context_.tokens();
  const keel_tensor weight = up_weight();
  const bool gated = ids_.gate.weight != kNone;
  saved.up = memory.take({n, weight.shape[0]});
  Tensor normed = mlp_norm_.forward(context_, saved.middle, saved.mlp_statistics);
  saved.mlp_input = context_.group.gather_products(
      std::move(normed), {{weight, context_.optional_product_value(ids_.up.bias), saved.up}});
  saved.hidden = memory.take({n, gated ? weight.shape[0] / 2 : weight.shape[0]});
  if (gated) {
    ops::swiglu(context_.stream(), {.x = saved.up, .y = saved.hidden});
  } else {
    ops::gelu(context_.stream(), {.x = saved.up, .y = saved.hidden});
  }
  if (!output) return {};
  Tensor y = context_.group.products_reduce(
      {{saved.hidden, context_.store.product_value(ids_.down.weight), /*transposed=*/true}},
      context_.shape.width);
  mlp_dropout_.forward(context_, saved.number, y, context_.optional_value(ids_.down.bias),
                       saved.middle, y);
  return y;
}

// ---- backward

Tensor Block::backward_data(Saved& saved, Tensor d) const {
  if (recompute_ == Recompute::kFull) {
    context_.recompute([&] {
      attend(saved);
      run_mlp(saved, /*output=*/false);
    });
  }
  Tensor middle = mlp_backward(saved, d);
  d.reset();
  if (recompute_ == Recompute::kSelective) context_.recompute([&] { run_attention(saved); });
  return attention_backward(saved, middle);
}

Tensor Block::mlp_backward(Saved& saved, const Tensor& d) const {
  Memory& memory = context_.memory;
  const int64_t n = context_.tokens();
  const Tensor d_hidden = memory.take({n, saved.hidden.view().shape[1]});
  const keel_tensor down = context_.store.product_value(ids_.down.weight);
  saved.d_down =
      context_.group.gather_products(mlp_dropout_.backward(context_, saved.number, d),
                                     {{down, std::nullopt, d_hidden, /*transposed=*/false}});
  saved.d_up = memory.take({n, saved.up.view().shape[1]});
  if (ids_.gate.weight != kNone) {
    ops::swiglu_backward(context_.stream(), {.x = saved.up, .dy = d_hidden, .dx = saved.d_up});
  } else {
    ops::gelu_backward(context_.stream(), {.x = saved.up, .dy = d_hidden, .dx = saved.d_up});
  }
  saved.up.reset();
  const Tensor branch = context_.group.products_reduce(
      {{saved.d_up, up_weight(), /*transposed=*/false}}, context_.shape.width);
  mlp_norm_.backward(context_, saved.middle, saved.mlp_statistics, branch);
  saved.middle.reset();
  return sum_of(context_, d, branch);
}

Tensor Block::attention_backward(Saved& saved, const Tensor& d) const {
  Memory& memory = context_.memory;
  Store& store = context_.store;
  const int64_t n = context_.tokens(), head = context_.shape.head_size();
  const Tensor d_attended = memory.take({n, heads_ * head});
  saved.d_projection =
      context_.group.gather_products(attention_dropout_.backward(context_, saved.number, d),
                                     {{store.product_value(ids_.projection.weight), std::nullopt,
                                       d_attended, /*transposed=*/false}});
  saved.d_query = memory.take({n, heads_ * head});
  saved.d_key = memory.take({n, kv_heads_ * head});
  saved.d_value = memory.take({n, kv_heads_ * head});
  ops::attention_backward(context_.stream(), {.q = heads_of(saved.query, heads_),
                                              .k = heads_of(saved.key, kv_heads_),
                                              .v = heads_of(saved.value, kv_heads_),
                                              .out = heads_of(saved.attended, heads_),
                                              .dout = heads_of(d_attended, heads_),
                                              .logsumexp = saved.logsumexp,
                                              .cu_seqlens_q = positions_.boundaries,
                                              .cu_seqlens_k = positions_.boundaries,
                                              .dq = heads_of(saved.d_query, heads_),
                                              .dk = heads_of(saved.d_key, kv_heads_),
                                              .dv = heads_of(saved.d_value, kv_heads_),
                                              .scale = 1 / std::sqrt(static_cast<double>(head)),
                                              .causal = true});
  for (Tensor* unused : {&saved.query, &saved.key, &saved.value, &saved.logsumexp}) {
    unused->reset();
  }
  rotate(saved.d_query, heads_, /*inverse=*/true);
  rotate(saved.d_key, kv_heads_, /*inverse=*/true);
  const Tensor branch = context_.group.products_reduce(
      {{saved.d_query, store.product_value(ids_.query.weight), /*transposed=*/false},
       {saved.d_key, store.product_value(ids_.key.weight), /*transposed=*/false},
       {saved.d_value, store.product_value(ids_.value.weight), /*transposed=*/false}},
      context_.shape.width);
  attention_norm_.backward(context_, saved.input, saved.attention_statistics, branch);
  saved.input.reset();
  return sum_of(context_, d, branch);
}

void Block::backward_weight(Saved& saved) const {
  Store& store = context_.store;
  const auto add = [&](const LinearIds& ids, const keel_tensor& d, const keel_tensor& x) {
    add_weight_gradient(context_, store.gradient(ids.weight), d, x);
    add_bias_gradient(context_, ids.bias, d);
  };
  add(ids_.down, saved.d_down, saved.hidden);
  if (ids_.gate.weight != kNone) {
    add_weight_gradient(context_, store.gradient_pair(ids_.gate.weight, ids_.up.weight), saved.d_up,
                        saved.mlp_input);
  } else {
    add(ids_.up, saved.d_up, saved.mlp_input);
  }
  add(ids_.projection, saved.d_projection, saved.attended);
  add(ids_.query, saved.d_query, saved.attention_input);
  add(ids_.key, saved.d_key, saved.attention_input);
  add(ids_.value, saved.d_value, saved.attention_input);
  saved = Saved();
}

}  // namespace keel::parallel
