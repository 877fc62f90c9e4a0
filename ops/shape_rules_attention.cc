// SPDX-License-Identifier: Apache-2.0
// Shape rules of attention, its gradient and its merge.
#include <keel/plugin_kit.hpp>

#include "ops/shape_rules.h"

namespace keel::ops {
namespace {

constexpr int64_t kMaxHeadSize = 256;

bool like(const keel_op_call& call, CheckError* error, const char* argument,
          const keel_tensor& tensor, const char* other, const keel_tensor& want) {
  return kit::same_shape(tensor, want) ||
         refuse(call, error, "%s: its shape is not that of %s", argument, other);
}

// Checks for [heads, tokens], where q is [tokens, heads, d].
bool is_of_rows(const keel_op_call& call, CheckError* error, const char* argument,
                const keel_tensor& tensor, const keel_tensor& q) {
  if (tensor.rank == 2 && tensor.shape[0] == q.shape[1] && tensor.shape[1] == q.shape[0]) {
    return true;
  }
  return refuse(call, error, "%s: its shape is not [%lld,%lld], heads and tokens", argument,
                static_cast<long long>(q.shape[1]), static_cast<long long>(q.shape[0]));
}

bool check_heads(const keel_op_call& call, CheckError* error) {
  const keel_tensor& q = *call.inputs[0];
  const keel_tensor& k = *call.inputs[1];
  if (q.rank != 3 || k.rank != 3) {
    return refuse(call, error, "input %s: its rank is %u, not 3", q.rank != 3 ? "q" : "k",
                  q.rank != 3 ? q.rank : k.rank);
  }
  if (q.shape[2] < 1 || q.shape[2] > kMaxHeadSize || k.shape[2] != q.shape[2]) {
    return refuse(call, error, "input k: heads of q have %lld elements, of k %lld; want 1 to %lld",
                  static_cast<long long>(q.shape[2]), static_cast<long long>(k.shape[2]),
                  static_cast<long long>(kMaxHeadSize));
  }
  if (k.shape[1] < 1 || q.shape[1] < 1 || q.shape[1] % k.shape[1] != 0) {
    return refuse(call, error, "input k: %lld heads of q cannot share %lld of k",
                  static_cast<long long>(q.shape[1]), static_cast<long long>(k.shape[1]));
  }
  return like(call, error, "input v", *call.inputs[2], "k", k);
}

bool check_boundaries(const keel_op_call& call, CheckError* error, uint32_t first) {
  const keel_tensor* const of_q = call.inputs[first];
  const keel_tensor* const of_k = call.inputs[first + 1];
  if (of_q == nullptr && of_k == nullptr) return true;
  if (of_q == nullptr || of_k == nullptr) {
    return refuse(call, error, "input cu_seqlens_%s is missing: both are given, or neither",
                  of_q == nullptr ? "q" : "k");
  }
  if (of_q->rank != 1 || of_q->shape[0] < 1) {
    return refuse(call, error, "input cu_seqlens_q: its shape is not [batch+1]");
  }
  return like(call, error, "input cu_seqlens_k", *of_k, "cu_seqlens_q", *of_q);
}

// Checks input |index|, behind the boundaries. With them the lengths of the sequences are data, so
// the mask may have any number of queries and keys.
bool check_mask(const keel_op_call& call, CheckError* error, uint32_t index) {
  const keel_tensor* const mask = call.inputs[index];
  if (mask == nullptr) return true;
  if (mask->rank != 4) return refuse(call, error, "input mask: its rank is %u, not 4", mask->rank);
  const keel_tensor* const of_q = call.inputs[index - 2];
  const bool is_packed = of_q != nullptr;
  const int64_t wanted[] = {is_packed ? of_q->shape[0] - 1 : 1, call.inputs[0]->shape[1],
                            is_packed ? mask->shape[2] : call.inputs[0]->shape[0],
                            is_packed ? mask->shape[3] : call.inputs[1]->shape[0]};
  constexpr const char* kAxes[] = {"batch", "heads", "queries", "keys"};
  for (uint32_t axis = 0; axis < 4; ++axis) {
    if (mask->shape[axis] == wanted[axis] || (axis != 3 && mask->shape[axis] == 1)) continue;
    return refuse(call, error, "input mask: %s: it has %lld, not %lld%s", kAxes[axis],
                  static_cast<long long>(mask->shape[axis]), static_cast<long long>(wanted[axis]),
                  axis == 3 ? "" : " or 1");
  }
  return true;
}

}  // namespace

bool check_attention(const keel_op_call& call, CheckError* error) {
  const keel_tensor& q = *call.inputs[0];
  return check_heads(call, error) && check_boundaries(call, error, 3) &&
         check_mask(call, error, 5) && like(call, error, "output out", *call.outputs[0], "q", q) &&
         is_of_rows(call, error, "output logsumexp", *call.outputs[1], q);
}

bool check_attention_backward(const keel_op_call& call, CheckError* error) {
  const keel_tensor& q = *call.inputs[0];
  const keel_tensor& k = *call.inputs[1];
  return check_heads(call, error) && like(call, error, "input out", *call.inputs[3], "q", q) &&
         like(call, error, "input dout", *call.inputs[4], "q", q) &&
         is_of_rows(call, error, "input logsumexp", *call.inputs[5], q) &&
         check_boundaries(call, error, 6) && check_mask(call, error, 8) &&
         like(call, error, "output dq", *call.outputs[0], "q", q) &&
         like(call, error, "output dk", *call.outputs[1], "k", k) &&
         like(call, error, "output dv", *call.outputs[2], "k", k);
}

bool check_attention_merge(const keel_op_call& call, CheckError* error) {
  const keel_tensor& out_a = *call.inputs[0];
  if (out_a.rank != 3) {
    return refuse(call, error, "input out_a: its rank is %u, not 3", out_a.rank);
  }
  return is_of_rows(call, error, "input lse_a", *call.inputs[1], out_a) &&
         like(call, error, "input out_b", *call.inputs[2], "out_a", out_a) &&
         is_of_rows(call, error, "input lse_b", *call.inputs[3], out_a) &&
         like(call, error, "output out", *call.outputs[0], "out_a", out_a) &&
         is_of_rows(call, error, "output logsumexp", *call.outputs[1], out_a);
}

}  // namespace keel::ops
