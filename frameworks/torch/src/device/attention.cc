// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention by Keel's operator, which makes no matrix of scores. PyTorch
// composes what the operator lacks, as gradients of masks, of matmul and softmax.
#include <ATen/ATen.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cmath>
#include <initializer_list>
#include <tuple>

#include "devices.h"
#include "generator.h"
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

// Keel's mask of PyTorch's, which PyTorch has made additive: float32 [batch,heads,queries,keys],
// where a single row serves all of the first three. Undefined if |mask| is.
Tensor mask_of(const Tensor& mask) {
  if (!mask.defined()) return {};
  Tensor rows = mask;
  while (rows.dim() < 4) rows = rows.unsqueeze(0);
  // Expanded axes shrink to one row, which a conversion would otherwise write out in full.
  for (int64_t axis = 0; axis < 3; ++axis) {
    if (rows.stride(axis) == 0 && rows.size(axis) > 1) rows = rows.narrow(axis, 0, 1);
  }
  rows = rows.to(at::kFloat);
  return rows.size(3) == 1 || rows.stride(3) == 1 ? rows : rows.contiguous();
}

View view_of(const Tensor& tensor) {
  return tensor.defined() ? View(tensor) : View();
}

keel_op_attention_attributes attributes_of(const Tensor& query, bool is_causal,
                                           std::optional<double> scale, double dropout,
                                           const Philox& philox) {
  keel_op_attention_attributes attributes = KEEL_OP_ATTENTION_ATTRIBUTES;
  attributes.scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  attributes.causal = is_causal ? 1 : 0;
  attributes.p = dropout;
  attributes.seed = philox.seed;
  attributes.offset = philox.offset;
  return attributes;
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

// Reserves the random numbers of a call; none without dropout.
Philox reserve_for(const Rows& rows, double dropout) {
  if (dropout == 0) return {0, 0};
  const int64_t row = (rows.k.size(0) + 3) / 4 * 4;
  return reserve(std::nullopt, rows.q.device().index(), rows.q.size(1) * rows.q.size(0) * row);
}

// On the host, where PyTorch keeps it for the gradient.
Tensor host_number(int64_t number) {
  return at::scalar_tensor(number, at::TensorOptions(at::kLong).device(at::kCPU));
}

void check_ran(bool ran, const char* name, const Tensor& query) {
  TORCH_CHECK(ran, "keel: no kernel runs ", name, " of ", query.scalar_type(), " on ",
              query.device());
}

using Attention =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Attention attention(const Tensor& query, const Tensor& key, const Tensor& value,
                    const std::optional<Tensor>& bias, double dropout, bool is_causal, bool,
                    std::optional<double> scale) {
  Rows rows(query, key, value);
  const Tensor ends_q = ends_of_sequences(query);
  const Tensor ends_k = key.size(2) == query.size(2) ? ends_q : ends_of_sequences(key);
  const Tensor out = at::empty(rows.q.sizes(), rows.q.options());
  const Tensor logsumexp =
      at::empty({rows.q.size(1), rows.q.size(0)}, rows.q.options().dtype(at::kFloat));
  const Tensor mask = mask_of(bias.value_or(Tensor()));
  View inputs[] = {View(rows.q),    View(rows.k),    View(rows.v),
                   view_of(ends_q), view_of(ends_k), view_of(mask)};
  const View outputs[] = {View(out), View(logsumexp)};
  const bool has_ends = ends_q.defined();
  const Philox philox = reserve_for(rows, dropout);
  const auto attributes = attributes_of(query, is_causal, scale, dropout, philox);
  const std::initializer_list<const View*> of_inputs = {&inputs[0],
                                                        &inputs[1],
                                                        &inputs[2],
                                                        has_ends ? &inputs[3] : nullptr,
                                                        has_ends ? &inputs[4] : nullptr,
                                                        mask.defined() ? &inputs[5] : nullptr};
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
          dropout == 0 ? Tensor() : host_number(philox.seed),
          dropout == 0 ? Tensor() : host_number(philox.offset),
          {}};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(
    const Tensor& gradient, const Tensor& query, const Tensor& key, const Tensor& value,
    const Tensor& bias, std::array<bool, 4>, const Tensor& output, const Tensor& logsumexp,
    const Tensor& ends_q, const Tensor& ends_k, c10::SymInt, c10::SymInt, double dropout,
    bool is_causal, const Tensor& seed, const Tensor& offset, std::optional<double> scale) {
  Rows rows(query, key, value);
  const Tensor out = by_token(output).contiguous();  // what kernels ask of these two
  const Tensor dout = by_token(gradient).contiguous();
  const Tensor dq = at::empty(rows.q.sizes(), rows.q.options());
  const Tensor dk = at::empty(rows.k.sizes(), rows.k.options());
  const Tensor dv = at::empty(rows.v.sizes(), rows.v.options());
  const Tensor mask = mask_of(bias);
  View inputs[] = {View(rows.q),    View(rows.k),    View(rows.v),    View(out),    View(dout),
                   View(logsumexp), view_of(ends_q), view_of(ends_k), view_of(mask)};
  const View outputs[] = {View(dq), View(dk), View(dv)};
  const bool has_ends = ends_q.defined();
  const Philox philox =
      dropout == 0 ? Philox{0, 0} : Philox{seed.item<int64_t>(), offset.item<int64_t>()};
  // attention_backward has the same.
  const auto attributes = attributes_of(query, is_causal, scale, dropout, philox);
  const std::initializer_list<const View*> of_inputs = {&inputs[0],
                                                        &inputs[1],
                                                        &inputs[2],
                                                        &inputs[3],
                                                        &inputs[4],
                                                        &inputs[5],
                                                        has_ends ? &inputs[6] : nullptr,
                                                        has_ends ? &inputs[7] : nullptr,
                                                        mask.defined() ? &inputs[8] : nullptr};
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

// A dense tensor without memory, to ask for kernels with.
View sketch(c10::DeviceIndex device, keel_dtype dtype, std::initializer_list<int64_t> shape) {
  View view;
  view.size = sizeof(keel_tensor);
  view.dtype = dtype;
  view.device = device;
  view.rank = static_cast<uint32_t>(shape.size());
  int64_t stride = 1;
  for (uint32_t axis = view.rank; axis-- > 0;) {
    view.shape[axis] = shape.begin()[axis];
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

// Parts of attention that some devices' kernels lack.
struct Extras {
  bool mask = false, dropout = false;
};

bool find_kernels(c10::DeviceIndex device, keel_dtype dtype, Extras extras) {
  const View heads = sketch(device, dtype, {16, 1, 16});
  const View rows = sketch(device, KEEL_FLOAT32, {1, 16});
  const View mask = sketch(device, KEEL_FLOAT32, {1, 1, 16, 16});
  const View* const given = extras.mask ? &mask : nullptr;
  keel_op_attention_attributes attributes = KEEL_OP_ATTENTION_ATTRIBUTES;
  if (extras.dropout) attributes.p = 0.5;
  constexpr uint32_t kAttributes = sizeof attributes / sizeof(keel_attribute);
  return has_kernel(device, KEEL_OP_ATTENTION, {&heads, &heads, &heads, nullptr, nullptr, given},
                    {&heads, &rows}, &attributes, kAttributes) &&
         has_kernel(device, KEEL_OP_ATTENTION_BACKWARD,
                    {&heads, &heads, &heads, &heads, &heads, &rows, nullptr, nullptr, given},
                    {&heads, &heads, &heads}, &attributes, kAttributes);
}

// Returns whether the device of |query| itself runs attention with |extras|. Where it does not,
// Keel would on the CPU, and PyTorch's composition is better. Asks Keel once for each dtype, device
// and extras.
bool has_kernels(const Tensor& query, Extras extras) {
  if (!extras.mask && !extras.dropout) return true;
  enum : int8_t { kUnknown, kAbsent, kPresent };
  static std::array<std::atomic<int8_t>, 3 << 9> known = {};
  const c10::DeviceIndex device = query.device().index();
  const at::ScalarType type = query.scalar_type();
  const size_t place = (type == at::kFloat  ? 0
                        : type == at::kHalf ? 4
                                            : 8) +
                       (extras.mask ? 1 : 0) + (extras.dropout ? 2 : 0);
  std::atomic<int8_t>& result = known[(place << 7) + static_cast<size_t>(device)];
  if (result.load(std::memory_order_relaxed) == kUnknown) {
    const bool found = find_kernels(device, dtype_of(type), extras);
    result.store(found ? kPresent : kAbsent, std::memory_order_relaxed);
  }
  return result.load(std::memory_order_relaxed) == kPresent;
}

// Whether Keel's operator takes the form of |mask| with a query that is_taken().
bool is_mask_taken(const Tensor& mask, const Tensor& query, const Tensor& key, bool is_causal) {
  const at::ScalarType type = mask.scalar_type();
  const bool is_known =
      type == at::kBool || type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
  if (!is_known || is_causal || mask.is_nested() || mask.device() != query.device()) return false;
  if (mask.requires_grad() && at::GradMode::is_enabled()) return false;
  if (mask.dim() < 2 || mask.dim() > 4 || mask.size(-1) != key.size(2)) return false;
  for (int64_t axis = 2; axis <= mask.dim(); ++axis) {
    const int64_t extent = mask.size(-axis);
    if (extent != 1 && extent != query.size(4 - axis)) return false;
  }
  return true;
}

int64_t attention_choice(const Tensor& query, const Tensor& key, const Tensor& value,
                         const std::optional<Tensor>& mask, double dropout, bool is_causal,
                         std::optional<double>, bool is_grouped) {
  const bool has_mask = mask.has_value() && mask->defined();
  const bool is_fused = dropout >= 0 && dropout < 1 &&
                        is_taken(query, key, value, is_causal, is_grouped) &&
                        (!has_mask || is_mask_taken(*mask, query, key, is_causal)) &&
                        has_kernels(query, {.mask = has_mask, .dropout = dropout != 0});
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
