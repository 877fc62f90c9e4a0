// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/ops/ops.h"

namespace keel::cpu::attention {
namespace {

bool is_known(keel_dtype dtype) {
  return dtype == KEEL_FLOAT32 || dtype == KEEL_FLOAT16 || dtype == KEEL_BFLOAT16;
}

// The sum of finite values is finite unless it overflows; an overflow only selects the slow path.
bool all_finite(const gemm::Matrix& rows, int64_t count, int64_t width) {
  const auto* const data = static_cast<const float*>(rows.data);
  if (rows.stride == width) return std::isfinite(kernels::sum_f32(data, count * width));
  float sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += std::abs(static_cast<float>(kernels::sum_f32(data + i * rows.stride, width)));
  }
  return std::isfinite(sum);
}

}  // namespace

// ---- tensors -------------------------------------------------------------------

bool Heads::describe(const keel_tensor& tensor, Heads* out_heads) {
  if (tensor.rank != 3 || !is_known(tensor.dtype)) return false;
  const int64_t tokens = tensor.shape[0];
  const int64_t width = tensor.shape[2];
  if (width < 1 || width > kMaxWidth || (width > 1 && tensor.strides[2] != 1)) return false;
  if (tokens > 1 && tensor.strides[0] < width) return false;
  *out_heads = {nullptr, tensor.dtype, tokens > 1 ? tensor.strides[0] : width, tensor.strides[1],
                width};
  return true;
}

Heads Heads::of(const Stream& stream, const keel_tensor& tensor) {
  Heads heads = {};
  describe(tensor, &heads);
  heads.data = address<char>(stream, tensor);
  return heads;
}

char* Heads::at(int64_t token, int64_t head) const {
  return data + (token * token_stride + head * head_stride) * kit::dtype_size(dtype);
}

gemm::Matrix Heads::rows(Span tokens, int64_t head, float* scratch) const {
  if (dtype == KEEL_FLOAT32) {
    return {at(tokens.first, head), token_stride, /*transposed=*/false};
  }
  return gathered(tokens, head, scratch);
}

gemm::Matrix Heads::gathered(Span tokens, int64_t head, float* scratch) const {
  const kernels::CastFunction widen = kernels::cast_function(dtype, KEEL_FLOAT32);
  for (int64_t i = 0; i < tokens.count; ++i) {
    widen(at(tokens.first + i, head), scratch + i * width, width);
  }
  return {scratch, width, /*transposed=*/false};
}

void Heads::store(int64_t token, int64_t head, const float* values) const {
  if (dtype == KEEL_FLOAT32) {
    std::copy_n(values, width, reinterpret_cast<float*>(at(token, head)));
  } else {
    kernels::cast_function(KEEL_FLOAT32, dtype)(values, at(token, head), width);
  }
}

bool Mask::supports(const keel_tensor* tensor) {
  return tensor == nullptr || (tensor->dtype == KEEL_FLOAT32 && tensor->rank == 4 &&
                               (tensor->shape[3] <= 1 || tensor->strides[3] == 1));
}

Mask Mask::of(const Stream& stream, const keel_tensor* tensor) {
  if (tensor == nullptr) return {};
  const auto stride = [tensor](int axis) {
    return tensor->shape[axis] == 1 ? 0 : tensor->strides[axis];
  };
  return {address<const float>(stream, *tensor),
          stride(0),
          stride(1),
          stride(2),
          tensor->shape[2] == 1 ? INT64_MAX : tensor->shape[2],
          tensor->shape[3]};
}

void Mask::add(const Window& query, int64_t head, int64_t key, float* scores, int64_t count) const {
  kernels::add_f32(scores, data + (query.mask + head * head_stride + key), scores, count);
}

Dropout Dropout::of(const keel_op_call& call) {
  // attention_backward has the same.
  const auto attributes = kit::attributes<keel_op_attention_attributes>(call);
  if (attributes.p == 0) return {};
  return {(call.inputs[1]->shape[0] + 3) / 4 * 4,
          kernels::DropoutMask::of(attributes.p, attributes.seed, attributes.offset)};
}

bool Problem::supports(const keel_op_call& call, uint32_t cu_seqlens) {
  Heads heads;
  for (uint32_t i = 0; i < 3; ++i) {
    if (!Heads::describe(*call.inputs[i], &heads)) return false;
  }
  for (uint32_t i = cu_seqlens; i < cu_seqlens + 2; ++i) {
    const keel_tensor* const given = call.inputs[i];
    if (given != nullptr && (given->dtype != KEEL_INT32 || !kit::is_contiguous(*given))) {
      return false;
    }
  }
  return Mask::supports(call.inputs[cu_seqlens + 2]);
}

uint64_t Problem::workspace_bytes(const keel_op_call& call) {
  return static_cast<uint64_t>(call.inputs[0]->shape[0]) * sizeof(Window);
}

Problem Problem::of(const Stream& stream, const keel_op_call& call, uint32_t cu_seqlens,
                    void* workspace) {
  const keel_tensor& q = *call.inputs[0];
  const keel_tensor& k = *call.inputs[1];
  Problem problem = {Heads::of(stream, q),
                     Heads::of(stream, k),
                     Heads::of(stream, *call.inputs[2]),
                     nullptr,
                     nullptr,
                     /*sequences=*/1,
                     q.shape[0],
                     k.shape[0],
                     q.shape[1],
                     k.shape[1],
                     static_cast<float>(kit::attributes<keel_op_attention_attributes>(call).scale),
                     kit::attributes<keel_op_attention_attributes>(call).causal != 0,
                     static_cast<Window*>(workspace),
                     Mask::of(stream, call.inputs[cu_seqlens + 2]),
                     Dropout::of(call)};
  if (call.inputs[cu_seqlens] != nullptr) {
    problem.cu_seqlens_q = address<const int32_t>(stream, *call.inputs[cu_seqlens]);
    problem.cu_seqlens_k = address<const int32_t>(stream, *call.inputs[cu_seqlens + 1]);
    problem.sequences = call.inputs[cu_seqlens]->shape[0] - 1;
  }
  return problem;
}

// ---- windows -------------------------------------------------------------------

void Problem::find_windows() const {
  std::fill_n(windows, tokens_q, Window{0, 0});
  const bool is_packed = cu_seqlens_q != nullptr;
  // The largest boundary so far, limited to the number of tokens.
  const auto advance = [](int64_t so_far, int64_t entry, int64_t tokens) {
    return std::clamp(entry, so_far, tokens);
  };
  int64_t query = is_packed ? advance(0, cu_seqlens_q[0], tokens_q) : 0;
  int64_t key = is_packed ? advance(0, cu_seqlens_k[0], tokens_k) : 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t query_end = is_packed ? advance(query, cu_seqlens_q[s + 1], tokens_q) : tokens_q;
    const int64_t key_end = is_packed ? advance(key, cu_seqlens_k[s + 1], tokens_k) : tokens_k;
    const int64_t beyond = (key_end - key) - (query_end - query);
    for (int64_t i = query; i < query_end; ++i) {
      int64_t last = causal ? std::clamp(key + i - query + beyond + 1, key, key_end) : key_end;
      if (i - query >= mask.queries) last = key;
      if (last - key > mask.keys) last = key + mask.keys;
      windows[i] = {key, last, s * mask.sequence_stride + (i - query) * mask.query_stride - key};
    }
    query = query_end;
    key = key_end;
  }
}

Window Block::visible(int64_t row) const {
  const int64_t first = std::clamp<int64_t>(windows[row].first - keys.first, 0, keys.count);
  return {first, std::clamp<int64_t>(windows[row].last - keys.first, first, keys.count)};
}

bool Block::is_whole() const {
  for (int64_t row = 0; row < queries.count; ++row) {
    if (windows[row].first > keys.first || windows[row].last < keys.end()) return false;
  }
  return true;
}

Span seen_by(const Window* windows, Span queries) {
  int64_t first = INT64_MAX;
  int64_t last = 0;
  for (int64_t i = queries.first; i < queries.end(); ++i) {
    if (windows[i].first == windows[i].last) continue;
    first = std::min(first, windows[i].first);
    last = std::max(last, windows[i].last);
  }
  return last == 0 ? Span{0, 0} : Span{first, last - first};
}

Block narrow(const Window* windows, Span some, Span keys) {
  const auto sees = [&](int64_t i) {
    return std::max(windows[i].first, keys.first) < std::min(windows[i].last, keys.end());
  };
  int64_t first = some.first;
  int64_t end = some.end();
  while (first < end && !sees(first)) ++first;
  while (first < end && !sees(end - 1)) --end;
  const Span queries = {first, end - first};
  const Span seen = seen_by(windows, queries);
  const int64_t from = std::max(seen.first, keys.first);
  const int64_t to = std::min(seen.end(), keys.end());
  return {queries, {from, std::max<int64_t>(0, to - from)}, windows + first};
}

// ---- products ------------------------------------------------------------------

void multiply_heads(const Block& block, gemm::Matrix a, gemm::Matrix b, int64_t width, float scale,
                    float* scores) {
  b.transposed = true;
  gemm::multiply_f32({block.queries.count,
                      block.keys.count,
                      width,
                      a,
                      b,
                      {scores, block.keys.count, /*transposed=*/false},
                      scale,
                      /*beta=*/0.0f});
}

void add_weighted(const Block& block, const float* weights, gemm::Matrix rows, Sums which,
                  int64_t width, float* sums) {
  const bool of_keys = which == Sums::kOfKeys;
  const int64_t targets = of_keys ? block.keys.count : block.queries.count;
  const int64_t terms = of_keys ? block.queries.count : block.keys.count;
  if (block.is_whole() || all_finite(rows, terms, width)) {
    // Products only read a and b.
    return gemm::multiply_f32({targets,
                               width,
                               terms,
                               {const_cast<float*>(weights), block.keys.count, of_keys},
                               rows,
                               {sums, width, /*transposed=*/false},
                               /*alpha=*/1.0f,
                               /*beta=*/1.0f});
  }
  // The slow path adds term by term, because zero times infinity would be NaN.
  const auto* const values = static_cast<const float*>(rows.data);
  for (int64_t i = 0; i < block.queries.count; ++i) {
    const Window seen = block.visible(i);
    for (int64_t j = seen.first; j < seen.last; ++j) {
      float* const to = sums + (of_keys ? j : i) * width;
      const float* const from = values + (of_keys ? i : j) * rows.stride;
      kernels::axpy_f32(from, weights[block.at(i) + j], to, to, width);
    }
  }
}

}  // namespace keel::cpu::attention
