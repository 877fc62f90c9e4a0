// SPDX-License-Identifier: Apache-2.0
// Tests the references of attention: by hand, against an explicit softmax, and the gradient against
// central differences.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <keel/plugin_kit.hpp>
#include <limits>
#include <numeric>
#include <string>

#include "ops/testing/case_builder.h"
#include "ops/testing/case_data.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<float> random_floats(size_t count, uint32_t stream) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] =
        static_cast<float>(static_cast<double>(random_bits(7, 9, stream, i) >> 11) * 0x1p-52 - 1);
  }
  return values;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                 double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i])) {
      EXPECT_EQ(got[i], want[i]) << i;
    } else {
      EXPECT_NEAR(got[i], want[i], tolerance) << i;
    }
  }
}

// Random tensors of one problem, and both operators on them.
struct Problem {
  Problem(int64_t tokens_q_, int64_t tokens_k_, int64_t heads_, int64_t kv_heads_, int64_t width_)
      : tokens_q(tokens_q_),
        tokens_k(tokens_k_),
        heads(heads_),
        kv_heads(kv_heads_),
        width(width_),
        q(random_floats(static_cast<size_t>(tokens_q * heads * width), 0)),
        k(random_floats(static_cast<size_t>(tokens_k * kv_heads * width), 1)),
        v(random_floats(static_cast<size_t>(tokens_k * kv_heads * width), 2)),
        dout(random_floats(q.size(), 3)) {}

  keel_tensor like_q(std::vector<float>& values) const {
    return kit::make_tensor(values.data(), KEEL_FLOAT32, {tokens_q, heads, width});
  }
  keel_tensor like_k(std::vector<float>& values) const {
    return kit::make_tensor(values.data(), KEEL_FLOAT32, {tokens_k, kv_heads, width});
  }
  keel_tensor of_rows(std::vector<float>& values) const {
    return kit::make_tensor(values.data(), KEEL_FLOAT32, {heads, tokens_q});
  }
  std::vector<keel_attribute> attributes() const {
    return {float_attribute(scale), int_attribute(causal ? 1 : 0), float_attribute(p),
            int_attribute(seed), int_attribute(offset)};
  }

  ReferenceResult forward() {
    std::vector<float> out(q.size()), logsumexp(static_cast<size_t>(heads * tokens_q));
    const keel_tensor tensors[] = {like_q(q), like_k(k), like_k(v), like_q(out),
                                   of_rows(logsumexp)};
    const Boundaries given(*this);
    return run(KEEL_OP_ATTENTION,
               {&tensors[0], &tensors[1], &tensors[2], given.q(), given.k(), given.mask()},
               {&tensors[3], &tensors[4]}, attributes());
  }
  ReferenceResult backward() {
    const ReferenceResult before = forward();
    const auto narrowed = [](const std::vector<double>& values) {
      return std::vector<float>(values.begin(), values.end());
    };
    std::vector<float> out = narrowed(before.outputs[0].values);
    std::vector<float> logsumexp = narrowed(before.outputs[1].values);
    std::vector<float> dq(q.size()), dk(k.size()), dv(v.size());
    const keel_tensor tensors[] = {like_q(q),   like_k(k),    like_k(v),
                                   like_q(out), like_q(dout), of_rows(logsumexp),
                                   like_q(dq),  like_k(dk),   like_k(dv)};
    const Boundaries given(*this);
    return run(KEEL_OP_ATTENTION_BACKWARD,
               {&tensors[0], &tensors[1], &tensors[2], &tensors[3], &tensors[4], &tensors[5],
                given.q(), given.k(), given.mask()},
               {&tensors[6], &tensors[7], &tensors[8]}, attributes());
  }

  // Tensors over cu_seqlens and the mask, if given.
  class Boundaries {
   public:
    explicit Boundaries(Problem& problem)
        : is_given_(!problem.cu_q.empty()), has_mask_(!problem.mask.empty()) {
      const auto entries = static_cast<int64_t>(problem.cu_q.size());
      q_ = kit::make_tensor(problem.cu_q.data(), KEEL_INT32, {entries});
      k_ = kit::make_tensor(problem.cu_k.data(), KEEL_INT32, {entries});
      const std::array<int64_t, 4>& of = problem.mask_shape;
      mask_ = kit::make_tensor(problem.mask.data(), KEEL_FLOAT32, {of[0], of[1], of[2], of[3]});
    }
    const keel_tensor* q() const { return is_given_ ? &q_ : nullptr; }
    const keel_tensor* k() const { return is_given_ ? &k_ : nullptr; }
    const keel_tensor* mask() const { return has_mask_ ? &mask_ : nullptr; }

   private:
    bool is_given_, has_mask_;
    keel_tensor q_, k_, mask_;
  };
  void set_mask(const std::array<int64_t, 4>& shape) {
    mask_shape = shape;
    mask = random_floats(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]), 4);
  }

  const int64_t tokens_q, tokens_k, heads, kv_heads, width;
  std::vector<float> q, k, v, dout;
  std::vector<int32_t> cu_q, cu_k;
  std::vector<float> mask;
  std::array<int64_t, 4> mask_shape = {1, 1, 1, 1};
  double scale = 0.7;
  bool causal = false;
  double p = 0;
  int64_t seed = 0, offset = 0;
};

// ---- forward ----------------------------------------------------------------------------

TEST(AttentionReference, ByHand) {
  Problem problem(2, 2, 1, 1, 1);
  problem.q = {1, 2};
  problem.k = {0, std::log(3.0f)};
  problem.v = {8, 4};
  problem.scale = 1;
  const ReferenceResult all = problem.forward();
  // Weights 1/4, 3/4 and 1/10, 9/10.
  expect_near(all.outputs[0].values, {5, 4.4}, 1e-6);
  expect_near(all.outputs[1].values, {std::log(4), std::log(10)}, 1e-6);
  problem.causal = true;
  const ReferenceResult causal = problem.forward();
  expect_near(causal.outputs[0].values, {8, 4.4}, 1e-6);
  expect_near(causal.outputs[1].values, {0, std::log(10)}, 1e-6);
}

TEST(AttentionReference, IsASoftmaxOfScores) {
  Problem problem(5, 4, 4, 2, 3);
  const ReferenceResult result = problem.forward();
  for (size_t h = 0; h < 4; ++h) {
    for (size_t i = 0; i < 5; ++i) {
      std::vector<double> weights;
      for (size_t j = 0; j < 4; ++j) {
        double dot = 0;
        for (size_t l = 0; l < 3; ++l) {
          dot += double{problem.q[(i * 4 + h) * 3 + l]} * problem.k[(j * 2 + h / 2) * 3 + l];
        }
        weights.push_back(std::exp(0.7 * dot));
      }
      const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
      EXPECT_NEAR(result.outputs[1].values[h * 5 + i], std::log(total), 1e-12);
      for (size_t l = 0; l < 3; ++l) {
        double want = 0;
        for (size_t j = 0; j < 4; ++j) {
          want += weights[j] / total * problem.v[(j * 2 + h / 2) * 3 + l];
        }
        EXPECT_NEAR(result.outputs[0].values[(i * 4 + h) * 3 + l], want, 1e-12);
      }
    }
  }
}

// Packed sequences equal the sequences one by one.
TEST(AttentionReference, SequencesDoNotSeeEachOther) {
  Problem packed(6, 7, 2, 1, 3);
  packed.cu_q = {0, 2, 2, 6};
  packed.cu_k = {0, 3, 5, 7};
  for (const bool causal : {false, true}) {
    packed.causal = causal;
    const ReferenceResult result = packed.forward();
    struct {
      int64_t q, q_end, k, k_end;
    } const parts[] = {{0, 2, 0, 3}, {2, 6, 5, 7}};
    for (const auto& part : parts) {
      Problem one(part.q_end - part.q, part.k_end - part.k, 2, 1, 3);
      one.causal = causal;
      const auto cut = [](const std::vector<float>& from, int64_t begin, int64_t end) {
        return std::vector<float>(from.begin() + begin, from.begin() + end);
      };
      one.q = cut(packed.q, part.q * 6, part.q_end * 6);
      one.k = cut(packed.k, part.k * 3, part.k_end * 3);
      one.v = cut(packed.v, part.k * 3, part.k_end * 3);
      const std::vector<double>& whole = result.outputs[0].values;
      expect_near({whole.begin() + part.q * 6, whole.begin() + part.q_end * 6},
                  one.forward().outputs[0].values, 1e-12);
    }
  }
}

TEST(AttentionReference, AMaskIsAddedToTheScores) {
  Problem problem(2, 2, 1, 1, 1);
  problem.q = {1, 2};
  problem.k = {0, std::log(3.0f)};
  problem.v = {8, 4};
  problem.scale = 1;
  // Weights 3/6, 3/6 and 1, 0.
  problem.mask_shape = {1, 1, 2, 2};
  problem.mask = {std::log(3.0f), 0, 0, -std::numeric_limits<float>::infinity()};
  const ReferenceResult result = problem.forward();
  expect_near(result.outputs[0].values, {6, 8}, 1e-6);
  expect_near(result.outputs[1].values, {std::log(6), 0}, 1e-6);
}

// Keys 0 to 4 of head 1 and query 2: the row of 5 keys begins at a multiple of 8 elements.
TEST(AttentionReference, DropoutMultipliesTheWeights) {
  Problem problem(3, 5, 2, 1, 5);
  // Values make |out| the weights.
  std::fill(problem.v.begin(), problem.v.end(), 0.0f);
  for (size_t j = 0; j < 5; ++j) problem.v[j * 5 + j] = 1;
  const ReferenceResult plain = problem.forward();
  problem.p = 0.5;
  problem.seed = (int64_t{1} << 40) + 3;
  problem.offset = (int64_t{1} << 33) - 3;
  const ReferenceResult dropped = problem.forward();
  EXPECT_EQ(dropped.outputs[1].values, plain.outputs[1].values);
  std::vector<float> ones(48, 1.0f), factors(48);
  Host x({48}, ones);
  Host y({48}, factors);
  const std::vector<double> kept =
      run(KEEL_OP_DROPOUT_ADD, {&x.tensor, nullptr, nullptr}, {&y.tensor},
          {float_attribute(problem.p), int_attribute(problem.seed), int_attribute(problem.offset)})
          .outputs[0]
          .values;
  EXPECT_GT(std::count(kept.begin(), kept.end(), 0), 10);
  for (size_t h = 0; h < 2; ++h) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 5; ++j) {
        const size_t at = (i * 2 + h) * 5 + j;
        EXPECT_NEAR(dropped.outputs[0].values[at],
                    plain.outputs[0].values[at] * kept[(h * 3 + i) * 8 + j], 1e-12)
            << h << " " << i << " " << j;
      }
    }
  }
}

// Returns |problem| with its mask written out for each sequence, head and query; beyond the mask it
// is minus infinity.
Problem with_whole_mask(const Problem& problem) {
  const auto batch = static_cast<int64_t>(std::max<size_t>(problem.cu_q.size(), 2) - 1);
  Problem whole = problem;
  whole.mask_shape = {batch, problem.heads, problem.tokens_q, problem.tokens_k};
  whole.mask.clear();
  const std::array<int64_t, 4>& of = problem.mask_shape;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      for (int64_t i = 0; i < problem.tokens_q; ++i) {
        for (int64_t j = 0; j < problem.tokens_k; ++j) {
          const int64_t row =
              ((of[0] == 1 ? 0 : n) * of[1] + (of[1] == 1 ? 0 : h)) * of[2] + (of[2] == 1 ? 0 : i);
          const bool is_beyond = (of[2] != 1 && i >= of[2]) || j >= of[3];
          whole.mask.push_back(is_beyond ? -std::numeric_limits<float>::infinity()
                                         : problem.mask[static_cast<size_t>(row * of[3] + j)]);
        }
      }
    }
  }
  return whole;
}

TEST(AttentionReference, AMaskServesAllThatItHasOneOf) {
  const auto check = [](Problem problem, const std::array<int64_t, 4>& shape) {
    problem.set_mask(shape);
    Problem whole = with_whole_mask(problem);
    const ReferenceResult got = problem.forward();
    const ReferenceResult want = whole.forward();
    EXPECT_EQ(got.outputs[0].values, want.outputs[0].values);
    EXPECT_EQ(got.outputs[1].values, want.outputs[1].values);
    return got;
  };
  Problem one(3, 5, 2, 1, 2);
  Problem packed(7, 6, 2, 1, 2);
  packed.cu_q = {0, 3, 3, 7};
  packed.cu_k = {1, 2, 4, 6};
  for (const bool causal : {false, true}) {
    one.causal = packed.causal = causal;
    check(one, {1, 1, 1, 5});
    check(one, {1, 1, 3, 5});
    check(one, {1, 2, 1, 5});
    check(packed, {3, 2, 4, 2});
    check(packed, {1, 1, 4, 2});
    check(packed, {3, 1, 1, 2});
    // Query 2 of each sequence is beyond the mask; so is key 1.
    const ReferenceResult few = check(packed, {3, 1, 2, 1});
    EXPECT_EQ(few.outputs[1].values[2], -kInfinity);
    EXPECT_EQ(few.outputs[1].values[6], -kInfinity);
    // The only visible key of the last sequence is its first.
    if (causal) continue;
    EXPECT_NEAR(few.outputs[0].values[3 * 4], double{packed.v[4 * 2]}, 1e-12);
  }
}

TEST(AttentionReference, AScoreOfNaNIsNoMask) {
  for (const bool first : {true, false}) {
    Problem problem(1, 2, 1, 1, 1);
    const float masked = -std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    problem.q = {1};
    problem.k = first ? std::vector<float>{nan, masked} : std::vector<float>{masked, nan};
    const ReferenceResult result = problem.forward();
    EXPECT_TRUE(std::isnan(result.outputs[0].values[0]));
    EXPECT_TRUE(std::isnan(result.outputs[1].values[0]));
  }
}

TEST(AttentionReference, WhoSeesNothingGivesZeroes) {
  Problem problem(3, 2, 1, 1, 2);
  problem.causal = true;  // query 0 precedes all keys
  const ReferenceResult result = problem.forward();
  EXPECT_EQ(result.outputs[0].values[0], 0);
  EXPECT_EQ(result.outputs[0].values[1], 0);
  EXPECT_EQ(result.outputs[1].values[0], -kInfinity);
  expect_near({result.outputs[0].values[2], result.outputs[0].values[3]},
              {problem.v[0], problem.v[1]}, 1e-12);
}

TEST(AttentionReference, LyingBoundariesAreHeldToTheTokens) {
  Problem problem(5, 4, 1, 1, 2);
  problem.cu_q = {1, 3, 2, 9};
  problem.cu_k = {-7, 3, 1, INT32_MAX};
  const std::vector<double> lying = problem.forward().outputs[0].values;
  problem.cu_q = {1, 3, 3, 5};
  problem.cu_k = {0, 3, 3, 4};
  EXPECT_EQ(lying, problem.forward().outputs[0].values);
  EXPECT_EQ(lying[0], 0);  // token 0 is in no sequence
  problem.cu_q = problem.cu_k = {3};
  expect_near(problem.forward().outputs[1].values, std::vector<double>(5, -kInfinity), 0);
}

TEST(AttentionShapes, AreRefusedWhereTheyDoNotFit) {
  std::vector<float> values(2048);
  std::vector<int32_t> entries(3);
  const auto heads = [&](int64_t tokens, int64_t count, int64_t width) {
    return kit::make_tensor(values.data(), KEEL_FLOAT32, {tokens, count, width});
  };
  const auto refused = [&](keel_tensor q, keel_tensor k, const keel_tensor* of_q,
                           const keel_tensor* of_k, const char* why,
                           const keel_tensor* mask = nullptr) {
    const keel_tensor lse = kit::make_tensor(nullptr, KEEL_FLOAT32, {q.shape[1], q.shape[0]});
    const keel_tensor* inputs[] = {&q, &k, &k, of_q, of_k, mask};
    const keel_tensor* outputs[] = {&q, &lse};
    const keel_attribute attributes[] = {float_attribute(1), int_attribute(0), float_attribute(0),
                                         int_attribute(0), int_attribute(0)};
    const keel_op_call call = {kit::header<keel_op_call>(KEEL_STRUCT_OP_CALL),
                               KEEL_OP_ATTENTION,
                               6,
                               2,
                               5,
                               inputs,
                               outputs,
                               attributes};
    CheckError error;
    error.text[0] = '\0';
    EXPECT_EQ(check_call(call, Check::kLayout, &error), KEEL_INVALID_ARGUMENT) << why;
    EXPECT_NE(std::string(error.text).find(why), std::string::npos) << error.text;
  };
  const keel_tensor three = kit::make_tensor(entries.data(), KEEL_INT32, {3});
  const keel_tensor two = kit::make_tensor(entries.data(), KEEL_INT32, {2});
  const keel_tensor none = kit::make_tensor(entries.data(), KEEL_INT32, {0});
  refused(heads(2, 3, 4), heads(2, 2, 4), nullptr, nullptr, "3 heads of q cannot share 2");
  refused(heads(2, 1, 257), heads(2, 1, 257), nullptr, nullptr, "want 1 to 256");
  refused(heads(2, 1, 4), heads(2, 1, 5), nullptr, nullptr, "of q have 4 elements, of k 5");
  refused(heads(2, 1, 4), heads(2, 1, 4), &three, nullptr, "cu_seqlens_k is missing");
  refused(heads(2, 1, 4), heads(2, 1, 4), &three, &two, "cu_seqlens_k: its shape");
  refused(heads(2, 1, 4), heads(2, 1, 4), &none, &none, "not [batch+1]");
  const auto mask_refused = [&](std::initializer_list<int64_t> shape, const keel_tensor* ends,
                                const char* why) {
    const keel_tensor mask = kit::make_tensor(values.data(), KEEL_FLOAT32, shape);
    refused(heads(5, 6, 4), heads(7, 2, 4), ends, ends, why, &mask);
  };
  mask_refused({6, 5, 7}, nullptr, "input mask: its rank is 3, not 4");
  mask_refused({2, 6, 5, 7}, nullptr, "input mask: batch: it has 2, not 1 or 1");
  mask_refused({1, 2, 5, 7}, nullptr, "input mask: heads: it has 2, not 6 or 1");
  mask_refused({1, 6, 4, 7}, nullptr, "input mask: queries: it has 4, not 5 or 1");
  mask_refused({1, 6, 5, 1}, nullptr, "input mask: keys: it has 1, not 7");
  mask_refused({3, 6, 4, 3}, &three, "input mask: batch: it has 3, not 2 or 1");
}

// ---- backward ---------------------------------------------------------------------------

void expect_gradients(Problem problem) {
  const ReferenceResult got = problem.backward();
  const auto loss = [&] {
    const std::vector<double> out = problem.forward().outputs[0].values;
    return std::inner_product(out.begin(), out.end(), problem.dout.begin(), 0.0);
  };
  std::vector<float>* const inputs[] = {&problem.q, &problem.k, &problem.v};
  for (size_t input = 0; input < 3; ++input) {
    SCOPED_TRACE(input);
    std::vector<double> want;
    constexpr float kStep = 0x1p-10f;
    for (float& value : *inputs[input]) {
      const float saved = value;
      value = saved + kStep;
      const double above = value;
      const double loss_above = loss();
      value = saved - kStep;
      const double below = value;
      want.push_back((loss_above - loss()) / (above - below));
      value = saved;
    }
    expect_near(got.outputs[input].values, want, 2e-6);
  }
}

TEST(AttentionGradient, OfOneSequence) {
  expect_gradients(Problem(5, 4, 2, 2, 3));
}

TEST(AttentionGradient, OfSharedHeads) {
  expect_gradients(Problem(3, 5, 6, 2, 2));
}

TEST(AttentionGradient, OfCausalAttention) {
  Problem more_keys(3, 5, 1, 1, 3);
  more_keys.causal = true;
  expect_gradients(more_keys);
  Problem more_queries(5, 3, 1, 1, 3);
  more_queries.causal = true;
  expect_gradients(more_queries);
}

TEST(AttentionGradient, OfPackedSequences) {
  Problem problem(7, 6, 2, 1, 2);
  problem.cu_q = {0, 3, 3, 6};
  problem.cu_k = {1, 2, 4, 6};
  expect_gradients(problem);
  problem.causal = true;
  expect_gradients(problem);
}

TEST(AttentionGradient, OfMaskedScores) {
  Problem problem(5, 4, 2, 1, 3);
  problem.set_mask({1, 2, 5, 4});
  problem.mask[3] = problem.mask[6] = -std::numeric_limits<float>::infinity();
  for (size_t j = 0; j < 4; ++j) problem.mask[8 + j] = problem.mask[3];  // query 2 of head 0
  expect_gradients(problem);
  problem.causal = true;
  expect_gradients(problem);
  Problem packed(7, 6, 2, 1, 2);
  packed.cu_q = {0, 3, 3, 6};
  packed.cu_k = {1, 2, 4, 6};
  packed.set_mask({3, 1, 2, 2});
  expect_gradients(packed);
}

TEST(AttentionGradient, OfDroppedWeights) {
  Problem problem(5, 6, 4, 2, 3);
  problem.p = 0.375;
  problem.seed = 11;
  problem.offset = 5;
  expect_gradients(problem);
  problem.causal = true;
  problem.set_mask({1, 4, 5, 6});
  expect_gradients(problem);
  Problem packed(7, 6, 2, 1, 2);
  packed.cu_q = {0, 3, 3, 6};
  packed.cu_k = {1, 2, 4, 6};
  packed.p = 0.5;
  expect_gradients(packed);
}

// ---- merge ------------------------------------------------------------------------------

TEST(AttentionMergeReference, IsAttentionToAllKeys) {
  Problem problem(3, 5, 2, 1, 2);
  const ReferenceResult whole = problem.forward();
  std::vector<float> outs[2];
  std::vector<float> sums[2];
  for (int side = 0; side < 2; ++side) {
    Problem part(3, side == 0 ? 2 : 3, 2, 1, 2);
    part.q = problem.q;
    const auto cut = [side](const std::vector<float>& from) {
      return side == 0 ? std::vector<float>(from.begin(), from.begin() + 4)
                       : std::vector<float>(from.begin() + 4, from.end());
    };
    part.k = cut(problem.k);
    part.v = cut(problem.v);
    const ReferenceResult result = part.forward();
    outs[side].assign(result.outputs[0].values.begin(), result.outputs[0].values.end());
    sums[side].assign(result.outputs[1].values.begin(), result.outputs[1].values.end());
  }
  const keel_tensor tensors[] = {problem.like_q(outs[0]), problem.of_rows(sums[0]),
                                 problem.like_q(outs[1]), problem.of_rows(sums[1])};
  const ReferenceResult merged =
      run(KEEL_OP_ATTENTION_MERGE, {&tensors[0], &tensors[1], &tensors[2], &tensors[3]},
          {&tensors[0], &tensors[1]}, {});
  expect_near(merged.outputs[0].values, whole.outputs[0].values, 1e-6);
  expect_near(merged.outputs[1].values, whole.outputs[1].values, 1e-6);
}

TEST(AttentionMergeReference, ASideWithoutKeysAddsNothing) {
  const auto nothing = -std::numeric_limits<float>::infinity();
  std::vector<float> a = {1, std::nanf(""), std::nanf("")};
  std::vector<float> lse_a = {0.5f, nothing, nothing};
  std::vector<float> b = {std::nanf(""), 3, std::nanf("")};
  std::vector<float> lse_b = {nothing, 2, nothing};
  const keel_tensor tensors[] = {kit::make_tensor(a.data(), KEEL_FLOAT32, {3, 1, 1}),
                                 kit::make_tensor(lse_a.data(), KEEL_FLOAT32, {1, 3}),
                                 kit::make_tensor(b.data(), KEEL_FLOAT32, {3, 1, 1}),
                                 kit::make_tensor(lse_b.data(), KEEL_FLOAT32, {1, 3})};
  const ReferenceResult merged =
      run(KEEL_OP_ATTENTION_MERGE, {&tensors[0], &tensors[1], &tensors[2], &tensors[3]},
          {&tensors[0], &tensors[1]}, {});
  EXPECT_EQ(merged.outputs[0].values, (std::vector<double>{1, 3, 0}));
  EXPECT_EQ(merged.outputs[1].values, (std::vector<double>{0.5, 2, -kInfinity}));
}

}  // namespace
}  // namespace keel::ops
