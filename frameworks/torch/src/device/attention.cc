// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention by Keel's operator, which makes no matrix of scores. PyTorch
// composes what the operator lacks, masks and dropout, of matmul and softmax.
#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <tuple>

#include "devices.h"
#include "views.h"

namespace keel_torch::device {

namespace {

using at::Tensor;

constexpr int64_t kMaxWidth = 256;  // of a head

// [batch, heads, tokens, width] as Keel's [batch * tokens, heads, width]: a view of tensors that
// are views of [batch, tokens, heads, width], as models make them. Heads follow each other within a
// token; a token's may lie apart from the next one's, which not all kernels take.
Tensor by_token(const Tensor& tensor) {
  const Tensor moved = tensor.transpose(1, 2);
  const Tensor rows = moved.reshape({moved.size(0) * moved.size(1), moved.size(2), moved.size(3)});
  const bool is_by_token = rows.stride(2) == 1 && rows.stride(1) >= rows.size(2) &&
                           rows.stride(0) >= rows.size(1) * rows.stride(1);
  return is_by_token ? rows : rows.contiguous();
}

// The reverse, for |batch| sequences.
Tensor by_head(const Tensor& rows, int64_t batch) {
  return rows.view({batch, rows.size(0) / batch, rows.size(1), rows.size(2)}).transpose(1, 2);
}

// Where the sequences of |tensor| begin and end; undefined for one sequence.
Tensor ends_of_sequences(const Tensor& tensor) {
  const int64_t batch = tensor.size(0);
  const int64_t tokens = tensor.size(2);
  if (batch == 1) return {};
  return at::arange(0, (batch + 1) * tokens, tokens, tensor.options().dtype(at::kInt));
}

View view_of(const Tensor& tensor) {
  return tensor.defined() ? View(tensor) : View();
}

keel_op_attention_attributes attributes_of(const Tensor& query, bool is_causal,
                                           std::optional<double> scale) {
  return {scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3)))), is_causal ? 1 : 0};
}

template <typename Attributes>
bool takes(const Tensor& query, keel_op_id op, at::ArrayRef<const View*> inputs,
           at::ArrayRef<const View*> outputs, const Attributes& attributes) {
  return has_kernel(query.device().index(), op, inputs, outputs, &attributes,
                    sizeof attributes / sizeof(keel_attribute));
}

// The inputs of attention, a row per token.
struct Rows {
  Tensor q, k, v;

  Rows(const Tensor& query, const Tensor& key, const Tensor& value)
      : q(by_token(query)), k(by_token(key)), v(by_token(value)) {}

  bool is_dense() const { return q.is_contiguous() && k.is_contiguous() && v.is_contiguous(); }
  void make_dense() {
    q = q.contiguous();
    k = k.contiguous();
    v = v.contiguous();
  }
  void describe(View* views) const {
    views[0] = View(q);
    views[1] = View(k);
    views[2] = View(v);
  }
};

void check_ran(bool ran, const char* name, const Tensor& query) {
  TORCH_CHECK(ran, "keel: no kernel runs ", name, " of ", query.scalar_type(), " on ",
              query.device());
}

using Attention =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Attention attention(const Tensor& query, const Tensor& key, const Tensor& value,
                    const std::optional<Tensor>&, double, bool is_causal, bool,
                    std::optional<double> scale) {
  Rows rows(query, key, value);
  const Tensor ends_q = ends_of_sequences(query);
  const Tensor ends_k = key.size(2) == query.size(2) ? ends_q : ends_of_sequences(key);
  const Tensor out = at::empty(rows.q.sizes(), rows.q.options());
  const Tensor logsumexp =
      at::empty({rows.q.size(1), rows.q.size(0)}, rows.q.options().dtype(at::kFloat));
  View inputs[] = {View(rows.q), View(rows.k), View(rows.v), view_of(ends_q), view_of(ends_k)};
  const View outputs[] = {View(out), View(logsumexp)};
  const bool has_ends = ends_q.defined();
  const auto attributes = attributes_of(query, is_causal, scale);
  const std::initializer_list<const View*> of_inputs = {&inputs[0],
                                                        &inputs[1],
                                                        &inputs[2],
                                                        has_ends ? &inputs[3] : nullptr,
                                                        has_ends ? &inputs[4] : nullptr,
                                                        nullptr};
  const std::initializer_list<const View*> of_outputs = {&outputs[0], &outputs[1]};
  if (!rows.is_dense() && !takes(query, KEEL_OP_ATTENTION, of_inputs, of_outputs, attributes)) {
    rows.make_dense();
    rows.describe(inputs);
  }
  check_ran(run(query.device().index(), KEEL_OP_ATTENTION, of_inputs, of_outputs, attributes),
            "attention", query);
  return {by_head(out, query.size(0)),
          logsumexp,
          ends_q,
          ends_k,
          query.size(2),
          key.size(2),
          {},
          {},
          {}};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor&, std::array<bool, 4>, const Tensor& output, const Tensor& logsumexp,
    const Tensor& ends_q, const Tensor& ends_k, c10::SymInt, c10::SymInt, double, bool is_causal,
    const Tensor&, const Tensor&, std::optional<double> scale) {
  Rows rows(query, key, value);
  const Tensor out = by_token(output).contiguous();  // what kernels ask of these two
  const Tensor dout = by_token(gradient).contiguous();
  const Tensor dq = at::empty(rows.q.sizes(), rows.q.options());
  const Tensor dk = at::empty(rows.k.sizes(), rows.k.options());
  const Tensor dv = at::empty(rows.v.sizes(), rows.v.options());
  View inputs[] = {View(rows.q), View(rows.k),    View(rows.v),    View(out),
                   View(dout),   View(logsumexp), view_of(ends_q), view_of(ends_k)};
  const View outputs[] = {View(dq), View(dk), View(dv)};
  const bool has_ends = ends_q.defined();
  const keel_op_attention_attributes forward = attributes_of(query, is_causal, scale);
  const keel_op_attention_backward_attributes attributes = {forward.scale, forward.causal};
  const std::initializer_list<const View*> of_inputs = {&inputs[0],
                                                        &inputs[1],
                                                        &inputs[2],
                                                        &inputs[3],
                                                        &inputs[4],
                                                        &inputs[5],
                                                        has_ends ? &inputs[6] : nullptr,
                                                        has_ends ? &inputs[7] : nullptr,
                                                        nullptr};
  const std::initializer_list<const View*> of_outputs = {&outputs[0], &outputs[1], &outputs[2]};
  if (!rows.is_dense() &&
      !takes(query, KEEL_OP_ATTENTION_BACKWARD, of_inputs, of_outputs, attributes)) {
    rows.make_dense();
    rows.describe(inputs);
  }
  check_ran(
      run(query.device().index(), KEEL_OP_ATTENTION_BACKWARD, of_inputs, of_outputs, attributes),
      "attention_backward", query);
  const int64_t batch = query.size(0);
  return {by_head(dq, batch), by_head(dk, batch), by_head(dv, batch), {}};
}

bool is_taken(const Tensor& query, const Tensor& key, const Tensor& value, bool is_causal,
              bool is_grouped) {
  const at::ScalarType type = query.scalar_type();
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf) return false;
  if (query.is_nested() || key.is_nested() || value.is_nested()) return false;
  if (key.scalar_type() != type || value.scalar_type() != type) return false;
  if (query.dim() != 4 || key.dim() != 4 || key.sizes() != value.sizes()) return false;
  if (query.numel() == 0 || key.numel() == 0 || query.size(0) != key.size(0)) return false;
  if (query.size(3) != key.size(3) || query.size(3) > kMaxWidth) return false;
  const int64_t heads = query.size(1);
  const int64_t kv_heads = key.size(1);
  if (heads != kv_heads && (!is_grouped || heads % kv_heads != 0)) return false;
  // PyTorch aligns the first query with the first key, Keel the last with the last.
  return !is_causal || query.size(2) == key.size(2);
}

int64_t attention_choice(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& mask, double dropout, bool is_causal,
                         std::optional<double>, bool is_grouped) {
  const bool has_mask = mask.has_value() && mask->defined();
  const bool is_fused =
      !has_mask && dropout == 0 && is_taken(query, key, value, is_causal, is_grouped);
  return static_cast<int64_t>(is_fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_sdp_choice", &attention_choice);
  library.impl("_scaled_dot_product_fused_attention_overrideable", &attention);
  library.impl("_scaled_dot_product_fused_attention_overrideable_backward", &attention_backward);
}

}  // namespace

}  // namespace keel_torch::device

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &keel_torch::device::attention_choice)

}  // namespace at::native
