// SPDX-License-Identifier: Apache-2.0
// Cases of attention, its gradient and its merge.
#include <string>
#include <utility>
#include <vector>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

using D = Distribution;

struct Extents {
  int64_t tokens_q, tokens_k, heads, kv_heads, width;
  int64_t batch = 0;  // sequences; 0: no boundaries
};

// [1 or batch,1 or heads,1 or queries,keys].
struct Mask {
  std::vector<int64_t> shape = {};  // empty: no mask
  D distribution = D::kMaskedLogits;
  bool is_strided = false;  // a gap between rows, and heads of one memory
};

// Dropout of weights. The seed has more than 32 bits, and the counters of most cases carry into
// their upper word.
struct Dropout {
  double p = 0;
  int64_t seed = 1234567890123;
  int64_t offset = (int64_t{3} << 32) - 300;
};

struct AttentionOptions {
  bool causal = false;
  D q = D::kNormal;
  D keys = D::kNormal;  // and values
  D boundaries = D::kBoundaries;
  D logsumexp = D::kUniform;  // input of the gradient
  int64_t padding = 0;        // between heads, in all tensors with heads
  Mask mask = {};
  Dropout dropout = {};
  const char* name = "";
};

std::string suffix_of(const Extents& e, const AttentionOptions& options) {
  std::string text = "q" + std::to_string(e.tokens_q) + "_k" + std::to_string(e.tokens_k) + "_h" +
                     std::to_string(e.heads) + "_kv" + std::to_string(e.kv_heads) + "_d" +
                     std::to_string(e.width);
  if (e.batch != 0) text += "_b" + std::to_string(e.batch);
  if (options.causal) text += "/causal";
  return text + options.name;
}

// Makes scores of normal heads have a deviation of 1.
double scale_of(const Extents& e) {
  double root = 1;
  while ((root + 1) * (root + 1) <= static_cast<double>(e.width)) root += 1;
  return 1 / root;
}

// The attributes of both operators.
std::vector<keel_attribute> attributes_of(const Extents& e, const AttentionOptions& options) {
  const Dropout& dropout = options.dropout;
  return {float_attribute(scale_of(e)), int_attribute(options.causal ? 1 : 0),
          float_attribute(dropout.p), int_attribute(dropout.seed), int_attribute(dropout.offset)};
}

// Makes the tensors of a call, by shape.
class Tensors {
 public:
  Tensors(keel_op_id op, uint32_t combination, const Extents& e, const AttentionOptions& options)
      : dtype_(find_schema(op)->dtypes[combination].inputs[0]), e_(e), options_(options) {}

  CaseTensor like_q(D distribution) const {
    return place(dense(dtype_, {e_.tokens_q, e_.heads, e_.width}, distribution));
  }
  CaseTensor like_k(D distribution) const {
    return place(dense(dtype_, {e_.tokens_k, e_.kv_heads, e_.width}, distribution));
  }
  CaseTensor of_rows(D distribution) const {
    return dense(KEEL_FLOAT32, {e_.heads, e_.tokens_q}, distribution);
  }
  CaseTensor boundaries(int64_t tokens) const {
    return e_.batch == 0 ? absent()
                         : dense(KEEL_INT32, {e_.batch + 1}, options_.boundaries, tokens);
  }
  CaseTensor mask() const {
    const Mask& mask = options_.mask;
    if (mask.shape.empty()) return absent();
    CaseTensor tensor = dense(KEEL_FLOAT32, mask.shape, mask.distribution);
    if (mask.is_strided) {
      tensor = padded(std::move(tensor), 3);
      tensor.strides[1] = 0;
    }
    return tensor;
  }

 private:
  CaseTensor place(CaseTensor tensor) const {
    return options_.padding == 0 ? tensor : padded(std::move(tensor), options_.padding);
  }

  const keel_dtype dtype_;
  const Extents e_;
  const AttentionOptions options_;
};

Case attention_case(uint32_t combination, const Extents& e, const AttentionOptions& options) {
  const Tensors make(KEEL_OP_ATTENTION, combination, e, options);
  return make_case(KEEL_OP_ATTENTION, combination, suffix_of(e, options),
                   {make.like_q(options.q), make.like_k(options.keys), make.like_k(options.keys),
                    make.boundaries(e.tokens_q), make.boundaries(e.tokens_k), make.mask()},
                   {make.like_q(D::kNaN), make.of_rows(D::kNaN)}, attributes_of(e, options));
}

// The gradient is defined for any inputs, also if out and logsumexp do not match q, k and v.
Case attention_backward_case(uint32_t combination, const Extents& e,
                             const AttentionOptions& options) {
  const Tensors make(KEEL_OP_ATTENTION_BACKWARD, combination, e, options);
  return make_case(
      KEEL_OP_ATTENTION_BACKWARD, combination, suffix_of(e, options),
      {make.like_q(options.q), make.like_k(options.keys), make.like_k(options.keys),
       make.like_q(D::kNormal), make.like_q(D::kNormal), make.of_rows(options.logsumexp),
       make.boundaries(e.tokens_q), make.boundaries(e.tokens_k), make.mask()},
      {make.like_q(D::kNaN), make.like_k(D::kNaN), make.like_k(D::kNaN)},
      attributes_of(e, options));
}

// Cases with a mask, whose minus infinities hide some keys from some queries.
template <typename Make>
void add_masked(uint32_t c, const Make& make, std::vector<Case>* cases) {
  const auto add = [&](const Extents& e, Mask mask, const char* name, bool causal = false) {
    cases->push_back(make(c, e, {.causal = causal, .mask = std::move(mask), .name = name}));
  };
  // Each form of broadcasting; more than a tile of kernels.
  const Extents one = {37, 41, 2, 1, 8};
  add(one, {{1, 2, 37, 41}}, "/mask");
  add(one, {{1, 1, 37, 41}}, "/mask_of_pairs", /*causal=*/true);
  add(one, {{1, 2, 1, 41}}, "/mask_of_heads");
  add(one, {{1, 1, 1, 41}}, "/mask_of_keys", /*causal=*/true);
  add({70, 131, 2, 2, 5}, {{1, 2, 70, 131}}, "/mask", /*causal=*/true);
  add(one, {{1, 2, 37, 41}, D::kMaskedLogits, /*is_strided=*/true}, "/mask_strided");
  // Queries that the mask leaves without keys.
  add({37, 1, 2, 1, 8}, {{1, 2, 37, 1}}, "/mask_of_all_keys");
  add({37, 2, 2, 1, 3}, {{1, 1, 37, 2}}, "/mask_of_all_keys");
  add(one, {{1, 2, 37, 41}, D::kSomeNaN}, "/mask_nan");
  // Packed sequences: each its own mask, one of all, masks shorter than sequences, of no key.
  const Extents packed = {37, 41, 4, 2, 8, 3};
  add(packed, {{3, 4, 37, 41}}, "/mask");
  add(packed, {{3, 1, 37, 41}}, "/mask_of_pairs", /*causal=*/true);
  add(packed, {{1, 4, 1, 41}}, "/mask_of_heads");
  add(packed, {{3, 1, 1, 11}}, "/mask_of_few_keys", /*causal=*/true);
  add(packed, {{3, 4, 9, 11}}, "/mask_short");
  add(packed, {{3, 4, 9, 41}, D::kMaskedLogits, /*is_strided=*/true}, "/mask_strided");
  add(packed, {{3, 1, 9, 0}}, "/mask_of_no_key");
}

// Cases with dropout: tokens_k is a multiple of 4, or is rounded up to one; sequences begin within
// a counter; keys of several tiles of kernels.
template <typename Make>
void add_dropped(uint32_t c, const Make& make, std::vector<Case>* cases) {
  constexpr Dropout kQuarter = {.p = 0.25};
  const Extents one = {37, 41, 4, 2, 8};
  const Extents packed = {37, 41, 4, 2, 8, 3};
  const Extents long_rows = {70, 131, 2, 1, 5};
  // Tiles of queries begin in later sequences, whose keys begin within a counter.
  const Extents tiles = {150, 139, 2, 1, 5, 4};
  cases->push_back(make(c, one, {.dropout = kQuarter, .name = "/dropout"}));
  cases->push_back(make(c, {9, 64, 1, 1, 16}, {.dropout = kQuarter, .name = "/dropout"}));
  cases->push_back(make(c, packed, {.dropout = kQuarter, .name = "/dropout"}));
  cases->push_back(make(c, packed, {.causal = true, .dropout = kQuarter, .name = "/dropout"}));
  cases->push_back(
      make(c, long_rows,
           {.causal = true, .mask = {{1, 2, 70, 131}}, .dropout = kQuarter, .name = "/dropout"}));
  cases->push_back(make(
      c, packed,
      {.dropout = {.p = 0.5, .seed = -2, .offset = INT64_MAX}, .name = "/dropout_last_offset"}));
  cases->push_back(make(c, tiles, {.dropout = kQuarter, .name = "/dropout"}));
  // Most queries lose all of their keys.
  cases->push_back(make(c, {37, 3, 2, 1, 3}, {.dropout = {.p = 0.875}, .name = "/dropout_most"}));
  // A dropped weight is 0, and NaN in the key or value remains NaN.
  cases->push_back(make(c, {37, 41, 2, 1, 3, 5},
                        {.keys = D::kSomeNaN, .dropout = kQuarter, .name = "/dropout_nan"}));
}

// Cases of both directions, by |make(combination, extents, options)|.
template <typename Make>
std::vector<Case> head_cases(size_t combinations, const Make& make) {
  // All extents 1; primes; below, at and just above kernels' tile sizes; no queries, and no keys;
  // shared heads; packed sequences, some of them empty; odd head widths, and each width for which
  // kernels differ.
  const Extents extents[] = {{1, 1, 1, 1, 1},      {7, 5, 3, 1, 13},     {64, 64, 1, 1, 64},
                             {67, 131, 2, 2, 31},  {131, 67, 1, 1, 16},  {0, 5, 1, 1, 4},
                             {5, 0, 2, 1, 3},      {37, 41, 4, 2, 8, 3}, {3, 41, 2, 1, 5, 5},
                             {41, 3, 2, 1, 5, 5},  {2, 1031, 1, 1, 8},   {5, 9, 1, 1, 256},
                             {9, 5, 2, 2, 129, 2}, {11, 7, 1, 1, 3, 1},  {70, 67, 2, 1, 100}};
  std::vector<Case> cases;
  for (uint32_t c = 0; c < combinations; ++c) {
    for (const bool causal : {false, true}) {
      for (const Extents& e : extents) cases.push_back(make(c, e, {.causal = causal}));
      cases.push_back(
          make(c, {37, 41, 2, 1, 8, 5},
               {.causal = causal, .boundaries = D::kIndicesSomeOutside, .name = "/lying"}));
      cases.push_back(
          make(c, {37, 41, 2, 1, 3, 5}, {.causal = causal, .keys = D::kSomeNaN, .name = "/nan"}));
      cases.push_back(
          make(c, {37, 41, 2, 1, 3}, {.causal = causal, .q = D::kSomeNaN, .name = "/nan_q"}));
      cases.push_back(make(c, {37, 41, 2, 1, 3},
                           {.causal = causal, .q = D::kNonFinite, .name = "/non_finite_q"}));
      cases.push_back(make(c, {37, 41, 2, 1, 3, 5},
                           {.causal = causal, .keys = D::kNonFinite, .name = "/non_finite"}));
      cases.push_back(
          make(c, {37, 41, 2, 1, 3},
               {.causal = causal, .q = D::kZeroes, .keys = D::kZeroes, .name = "/zeroes"}));
    }
    cases.push_back(make(c, {9, 11, 2, 1, 5, 2}, {.padding = 3, .name = "/padded"}));
    cases.push_back(make(c, {37, 41, 2, 1, 3}, {.q = D::kSubnormal, .name = "/subnormal"}));
    add_masked(c, make, &cases);
    add_dropped(c, make, &cases);
  }
  return cases;
}

}  // namespace

std::vector<Case> attention_cases() {
  const size_t combinations = find_schema(KEEL_OP_ATTENTION)->dtypes.size();
  std::vector<Case> cases = head_cases(combinations, attention_case);
  for (uint32_t c = 0; c < combinations; ++c) {
    cases.push_back(attention_case(c, {37, 151, 1, 1, 16}, {.q = D::kLogits, .name = "/sharp"}));
  }
  return cases;
}

std::vector<Case> attention_backward_cases() {
  const size_t combinations = find_schema(KEEL_OP_ATTENTION_BACKWARD)->dtypes.size();
  std::vector<Case> cases = head_cases(combinations, attention_backward_case);
  for (uint32_t c = 0; c < combinations; ++c) {
    cases.push_back(attention_backward_case(c, {37, 41, 2, 1, 8},
                                            {.logsumexp = D::kMaskedLogits, .name = "/masked"}));
    // Infinite probabilities: gradients of one key or query are infinite, of several also NaN.
    for (const Extents& e : {Extents{37, 41, 2, 1, 8}, {37, 1, 2, 1, 3}}) {
      cases.push_back(attention_backward_case(
          c, e, {.logsumexp = D::kSomeFarBelow, .name = "/logsumexp_far_below"}));
    }
  }
  return cases;
}

std::vector<Case> attention_merge_cases() {
  const auto make = [](int64_t tokens, int64_t heads, int64_t width, D logsumexp, const char* name,
                       int64_t padding = 0, D outs = D::kNormal) {
    const auto out = [&](D distribution) {
      CaseTensor tensor = dense(KEEL_FLOAT32, {tokens, heads, width}, distribution);
      return padding == 0 ? tensor : padded(std::move(tensor), padding);
    };
    const auto lse = [&](D distribution) {
      return dense(KEEL_FLOAT32, {heads, tokens}, distribution);
    };
    return make_case(KEEL_OP_ATTENTION_MERGE, 0, shape_text({tokens, heads, width}) + name,
                     {out(outs), lse(logsumexp), out(outs), lse(logsumexp)},
                     {out(D::kNaN), lse(D::kNaN)});
  };
  std::vector<Case> cases;
  cases.push_back(make(0, 2, 5, D::kLogits, ""));
  cases.push_back(make(3, 2, 0, D::kLogits, ""));
  cases.push_back(make(1, 1, 1, D::kLogits, ""));
  cases.push_back(make(37, 3, 13, D::kLogits, ""));
  cases.push_back(make(129, 2, 64, D::kNormal, ""));
  cases.push_back(make(37, 3, 13, D::kMaskedLogits, "/masked"));
  cases.push_back(make(37, 3, 13, D::kSomeNaN, "/nan"));
  cases.push_back(make(37, 3, 13, D::kLogits, "/padded", 3));
  // The content of a side without keys is ignored.
  cases.push_back(make(37, 3, 13, D::kMaskedLogits, "/masked_nan", 0, D::kSomeNaN));
  // Many rows, so that each pair of NaN, infinities and numbers is among them.
  cases.push_back(make(1031, 3, 5, D::kNonFinite, "/lse_non_finite"));
  cases.push_back(in_place(make(37, 3, 13, D::kLogits, ""), 0, 0));
  cases.push_back(in_place(make(37, 3, 13, D::kMaskedLogits, ""), 1, 1));
  cases.push_back(in_place(in_place(make(37, 3, 13, D::kMaskedLogits, ""), 0, 0), 1, 1));
  return cases;
}

}  // namespace keel::ops
