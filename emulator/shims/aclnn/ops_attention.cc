// SPDX-License-Identifier: Apache-2.0
// Flash attention and its gradient. Not emulated: dropout, position shifts, prefixes, layouts other
// than BSND and BNSD, and the sparse modes other than a mask as given (0) and the causal mask of
// 2048 x 2048 (3).
#include <string_view>

#include "emulator/shims/aclnn/attention.h"
#include "emulator/shims/aclnn/executor.h"

namespace keel::emulator::aclnn {
namespace {

constexpr int64_t kMostHeads = 256;
constexpr int64_t kMostDepth = 768;

// The parameters that both operators have. Those of the second part are not emulated.
struct Parameters {
  const aclTensor* query;
  const aclTensor* key;
  const aclTensor* value;
  const aclTensor* mask;  // NULL: every query sees every key
  double scale;
  double keep_probability;
  int64_t pre_tokens;
  int64_t next_tokens;
  int64_t heads;
  const char* layout;
  int64_t inner_precise;
  int64_t sparse_mode;

  const aclTensor* position_shift;
  const aclTensor* dropout_mask;
  const aclTensor* padding_mask;
  const aclIntArray* prefix;

  bool has_null() const {
    return query == nullptr || key == nullptr || value == nullptr || layout == nullptr;
  }
  bool is_emulated() const {
    return position_shift == nullptr && dropout_mask == nullptr && padding_mask == nullptr &&
           prefix == nullptr;
  }
};

// Returns whether |dims| are [Sq,Skv], [1,1,Sq,Skv], [B,1,Sq,Skv] or [B,N,Sq,Skv].
bool is_mask_shape(const Dims& dims, const Attention& attention) {
  const Dims plain = {attention.queries, attention.keys};
  if (dims.size() == 2) return dims == plain;
  if (dims.size() != 4 || dims[2] != plain[0] || dims[3] != plain[1]) return false;
  return (dims[0] == 1 && dims[1] == 1) ||
         (dims[0] == attention.batches && (dims[1] == 1 || dims[1] == attention.heads));
}

// Sets |*out_attention|, or returns the library's answer to bad parameters.
aclnnStatus check(const char* name, const Parameters& parameters, Attention* out_attention) {
  if (parameters.has_null()) return kNullPointer;
  if (!parameters.is_emulated()) return kBadParameter;
  const Tensor& query = tensor_of(name, parameters.query);
  const Tensor& key = tensor_of(name, parameters.key);
  const Tensor& value = tensor_of(name, parameters.value);
  const std::string_view layout = parameters.layout;
  const Dims& q = query.dims;
  const Dims& k = key.dims;
  if ((layout != "BSND" && layout != "BNSD") || q.size() != 4 || k.size() != 4) {
    return kBadParameter;
  }
  // Values shorter than the keys are not emulated.
  if (value.dims != k || !is_training_type(query.type) || key.type != query.type ||
      value.type != query.type || query.count() == 0 || key.count() == 0) {
    return kBadParameter;
  }
  const size_t sequence = layout == "BSND" ? 1 : 2;
  const size_t head = 3 - sequence;
  Attention& attention = *out_attention;
  attention.is_bsnd = sequence == 1;
  attention.batches = q[0];
  attention.heads = q[head];
  attention.kv_heads = k[head];
  attention.queries = q[sequence];
  attention.keys = k[sequence];
  attention.depth = q[3];
  attention.scale = parameters.scale;
  attention.pre_tokens = parameters.pre_tokens;
  attention.next_tokens = parameters.next_tokens;
  if (k[0] != q[0] || k[3] != q[3] || q[head] % k[head] != 0 || q[head] != parameters.heads ||
      q[head] > kMostHeads || q[3] > kMostDepth || parameters.keep_probability != 1 ||
      parameters.inner_precise != 0) {
    return kBadParameter;
  }
  if (parameters.mask == nullptr) return 0;  // the sparse mode has no effect then
  const Tensor& mask = tensor_of(name, parameters.mask);
  if (mask.type != ACL_BOOL && mask.type != ACL_UINT8) return kBadParameter;
  if (parameters.sparse_mode == ACLNN_SPARSE_DEFAULT) {
    return is_mask_shape(mask.dims, attention) ? 0 : kBadParameter;
  }
  attention.is_causal = true;
  const bool is_causal_mask = mask.dims == Dims{ACLNN_CAUSAL_MASK_EXTENT, ACLNN_CAUSAL_MASK_EXTENT};
  // The documents do not say what a query gets that sees no key, as one with Sq > Skv.
  return parameters.sparse_mode == ACLNN_SPARSE_RIGHT_DOWN_CAUSAL && is_causal_mask &&
                 attention.queries <= attention.keys
             ? 0
             : kBadParameter;
}

bool is_alike(const Tensor& a, const Tensor& b) {
  return a.dims == b.dims && a.type == b.type;
}

// Returns whether |tensor| has the form of the maxima and sums of the rows.
bool is_statistic(const Tensor& tensor, const Attention& attention) {
  return tensor.dims == attention.statistics() && tensor.type == ACL_FLOAT;
}

}  // namespace
}  // namespace keel::emulator::aclnn

using namespace keel::emulator::aclnn;  // NOLINT: the functions below are C functions

extern "C" {

aclnnStatus aclnnFlashAttentionScoreGetWorkspaceSize(
    const aclTensor* query, const aclTensor* key, const aclTensor* value,
    const aclTensor* realShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* softmaxMaxOut, const aclTensor* softmaxSumOut,
    const aclTensor* softmaxOutOut, const aclTensor* attentionOutOut, uint64_t* workspaceSize,
    aclOpExecutor** executor) {
  const Parameters parameters = {query,
                                 key,
                                 value,
                                 attenMaskOptional,
                                 scaleValue,
                                 keepProb,
                                 preTokens,
                                 nextTokens,
                                 headNum,
                                 inputLayout,
                                 innerPrecise,
                                 sparseMode,
                                 realShiftOptional,
                                 dropMaskOptional,
                                 paddingMaskOptional,
                                 prefixOptional};
  if (softmaxMaxOut == nullptr || softmaxSumOut == nullptr || attentionOutOut == nullptr) {
    return kNullPointer;
  }
  if (softmaxOutOut != nullptr) return kBadParameter;  // not emulated
  const char* const name = "aclnnFlashAttentionScore";
  Attention attention = {};
  const aclnnStatus checked = check(name, parameters, &attention);
  if (checked != 0) return checked;
  if (!is_statistic(tensor_of(name, softmaxMaxOut), attention) ||
      !is_statistic(tensor_of(name, softmaxSumOut), attention) ||
      !is_alike(tensor_of(name, attentionOutOut), tensor_of(name, query))) {
    return kBadParameter;
  }
  std::vector<const aclTensor*> tensors = {query, key, value};
  if (attenMaskOptional != nullptr) tensors.push_back(attenMaskOptional);
  tensors.insert(tensors.end(), {softmaxMaxOut, softmaxSumOut, attentionOutOut});
  return prepare(
      name, tensors, kWorkspace,
      [attention](std::vector<Operand>& operands) { return attend(attention, operands); },
      workspaceSize, executor, attention.flops());
}
KEEL_SECOND_PHASE(FlashAttentionScore)

aclnnStatus aclnnFlashAttentionScoreGradGetWorkspaceSize(
    const aclTensor* query, const aclTensor* keyIn, const aclTensor* value, const aclTensor* dy,
    const aclTensor* pseShiftOptional, const aclTensor* dropMaskOptional,
    const aclTensor* paddingMaskOptional, const aclTensor* attenMaskOptional,
    const aclTensor* softmaxMaxOptional, const aclTensor* softmaxSumOptional,
    const aclTensor* softmaxInOptional, const aclTensor* attentionInOptional,
    const aclIntArray* prefixOptional, double scaleValue, double keepProb, int64_t preTokens,
    int64_t nextTokens, int64_t headNum, char* inputLayout, int64_t innerPrecise,
    int64_t sparseMode, const aclTensor* dqOut, const aclTensor* dkOut, const aclTensor* dvOut,
    const aclTensor* dpseOut, uint64_t* workspaceSize, aclOpExecutor** executor) {
  const Parameters parameters = {query,
                                 keyIn,
                                 value,
                                 attenMaskOptional,
                                 scaleValue,
                                 keepProb,
                                 preTokens,
                                 nextTokens,
                                 headNum,
                                 inputLayout,
                                 innerPrecise,
                                 sparseMode,
                                 pseShiftOptional,
                                 dropMaskOptional,
                                 paddingMaskOptional,
                                 prefixOptional};
  if (dy == nullptr || softmaxMaxOptional == nullptr || softmaxSumOptional == nullptr ||
      attentionInOptional == nullptr || dqOut == nullptr || dkOut == nullptr || dvOut == nullptr) {
    return kNullPointer;
  }
  if (softmaxInOptional != nullptr || dpseOut != nullptr) return kBadParameter;  // not emulated
  const char* const name = "aclnnFlashAttentionScoreGrad";
  Attention attention = {};
  const aclnnStatus checked = check(name, parameters, &attention);
  if (checked != 0) return checked;
  const auto is_like = [&](const aclTensor* handle, const aclTensor* other) {
    return is_alike(tensor_of(name, handle), tensor_of(name, other));
  };
  if (!is_like(dy, query) || !is_like(attentionInOptional, query) || !is_like(dqOut, query) ||
      !is_like(dkOut, keyIn) || !is_like(dvOut, value) ||
      !is_statistic(tensor_of(name, softmaxMaxOptional), attention) ||
      !is_statistic(tensor_of(name, softmaxSumOptional), attention)) {
    return kBadParameter;
  }
  std::vector<const aclTensor*> tensors = {
      query, keyIn, value, dy, softmaxMaxOptional, softmaxSumOptional, attentionInOptional};
  if (attenMaskOptional != nullptr) tensors.push_back(attenMaskOptional);
  tensors.insert(tensors.end(), {dvOut, dkOut, dqOut});
  return prepare(
      name, tensors, kWorkspace,
      [attention](std::vector<Operand>& operands) { return differentiate(attention, operands); },
      workspaceSize, executor, 2.5 * attention.flops());
}
KEEL_SECOND_PHASE(FlashAttentionScoreGrad)

}  // extern "C"
