// SPDX-License-Identifier: Apache-2.0
// Flash attention against a plain softmax(q k^T) v, and its gradient against finite differences.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/shims/aclnn/testing/aclnn_test.h"

namespace {

using keel::emulator::testing::differentiate;
using keel::emulator::testing::expect_near;
using keel::emulator::testing::kBadParameter;
using keel::emulator::testing::kNullPointer;
using keel::emulator::testing::widen;

constexpr int64_t kFar = INT32_MAX;
constexpr double kScale = 0.625;

using Vector = std::vector<double>;

struct Shape {
  size_t batches;
  size_t heads;
  size_t kv_heads;
  size_t queries;
  size_t keys;
  size_t depth;
  bool is_bsnd;

  std::vector<int64_t> dims(size_t of_heads, size_t extent) const {
    const size_t second = is_bsnd ? extent : of_heads;
    const size_t third = is_bsnd ? of_heads : extent;
    return {static_cast<int64_t>(batches), static_cast<int64_t>(second),
            static_cast<int64_t>(third), static_cast<int64_t>(depth)};
  }
  std::vector<int64_t> q_dims() const { return dims(heads, queries); }
  std::vector<int64_t> k_dims() const { return dims(kv_heads, keys); }
  std::vector<int64_t> row_dims() const {
    return {static_cast<int64_t>(batches), static_cast<int64_t>(heads),
            static_cast<int64_t>(queries), ACLNN_SOFTMAX_COPIES};
  }
  size_t at(size_t batch, size_t head, size_t i, size_t of_heads, size_t extent) const {
    return (is_bsnd ? (batch * extent + i) * of_heads + head
                    : (batch * of_heads + head) * extent + i) *
           depth;
  }
};

using Sees = std::function<bool(size_t i, size_t j)>;

struct Attended {
  Vector out;
  Vector most;  // of each row in the order [B,N,S]
  Vector sums;
};

Attended attend(const Shape& shape, const Vector& q, const Vector& k, const Vector& v,
                const Sees& sees) {
  Attended attended;
  attended.out.resize(q.size());
  for (size_t row = 0; row < shape.batches * shape.heads * shape.queries; ++row) {
    const size_t i = row % shape.queries;
    const size_t head = row / shape.queries % shape.heads;
    const size_t batch = row / shape.queries / shape.heads;
    const size_t kv_head = head * shape.kv_heads / shape.heads;
    const size_t from = shape.at(batch, head, i, shape.heads, shape.queries);
    const auto key = [&](size_t j) {
      return shape.at(batch, kv_head, j, shape.kv_heads, shape.keys);
    };
    Vector scores(shape.keys, -HUGE_VAL);
    double most = -HUGE_VAL;
    for (size_t j = 0; j < shape.keys; ++j) {
      if (!sees(i, j)) continue;
      scores[j] = 0;
      for (size_t d = 0; d < shape.depth; ++d) scores[j] += kScale * q[from + d] * k[key(j) + d];
      most = std::max(most, scores[j]);
    }
    double sum = 0;
    for (const double score : scores) sum += std::exp(score - most);
    for (size_t j = 0; j < shape.keys; ++j) {
      for (size_t d = 0; d < shape.depth; ++d) {
        attended.out[from + d] += std::exp(scores[j] - most) / sum * v[key(j) + d];
      }
    }
    attended.most.push_back(most);
    attended.sums.push_back(sum);
  }
  return attended;
}

// Values between -1 and 1 without a pattern.
std::vector<float> scattered(const std::vector<int64_t>& dims, int seed) {
  std::vector<float> values(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i * i + 1) * 0.7 + seed));
  }
  return values;
}

std::vector<uint8_t> causal_mask() {
  constexpr auto kExtent = static_cast<size_t>(ACLNN_CAUSAL_MASK_EXTENT);
  std::vector<uint8_t> mask(kExtent * kExtent);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % kExtent > i / kExtent ? 1 : 0;
  return mask;
}

class AclnnAttentionTest : public keel::emulator::testing::AclnnTest {
 protected:
  // Compares both operators, run with |mask|, to the plain attention by |sees|.
  void check(const Shape& shape, const aclTensor* mask, int64_t sparse_mode, const Sees& sees) {
    char layout[] = "BSND";
    if (!shape.is_bsnd) std::swap(layout[1], layout[2]);
    const std::vector<float> q = scattered(shape.q_dims(), 1);
    const std::vector<float> k = scattered(shape.k_dims(), 2);
    const std::vector<float> v = scattered(shape.k_dims(), 3);
    const std::vector<float> dy = scattered(shape.q_dims(), 4);
    aclTensor* const query = floats(shape.q_dims(), q);
    aclTensor* const key = floats(shape.k_dims(), k);
    aclTensor* const value = floats(shape.k_dims(), v);
    aclTensor* const most = result(shape.row_dims());
    aclTensor* const sums = result(shape.row_dims());
    aclTensor* const out = result(shape.q_dims());
    const auto heads = static_cast<int64_t>(shape.heads);
    ASSERT_EQ(
        ACLNN(FlashAttentionScore, query, key, value, nullptr, nullptr, nullptr, mask, nullptr,
              kScale, 1.0, kFar, kFar, heads, layout, 0, sparse_mode, most, sums, nullptr, out),
        0);
    const Attended expected = attend(shape, widen(q), widen(k), widen(v), sees);
    expect_near(read(out), expected.out);
    Vector every_most;
    Vector every_sum;
    for (size_t row = 0; row < expected.most.size(); ++row) {
      every_most.insert(every_most.end(), ACLNN_SOFTMAX_COPIES, expected.most[row]);
      every_sum.insert(every_sum.end(), ACLNN_SOFTMAX_COPIES, expected.sums[row]);
    }
    expect_near(read(most), every_most);
    expect_near(read(sums), every_sum);

    aclTensor* const dq = result(shape.q_dims());
    aclTensor* const dk = result(shape.k_dims());
    aclTensor* const dv = result(shape.k_dims());
    ASSERT_EQ(ACLNN(FlashAttentionScoreGrad, query, key, value, floats(shape.q_dims(), dy), nullptr,
                    nullptr, nullptr, mask, most, sums, nullptr, out, nullptr, kScale, 1.0, kFar,
                    kFar, heads, layout, 0, sparse_mode, dq, dk, dv, nullptr),
              0);
    const auto by_q = [&](const Vector& x) {
      return attend(shape, x, widen(k), widen(v), sees).out;
    };
    const auto by_k = [&](const Vector& x) {
      return attend(shape, widen(q), x, widen(v), sees).out;
    };
    const auto by_v = [&](const Vector& x) {
      return attend(shape, widen(q), widen(k), x, sees).out;
    };
    expect_near(read(dq), differentiate(by_q, widen(q), dy));
    expect_near(read(dk), differentiate(by_k, widen(k), dy));
    expect_near(read(dv), differentiate(by_v, widen(v), dy));
  }
};

TEST_F(AclnnAttentionTest, GroupedHeadsShareKeysInBothLayouts) {
  const auto sees = [](size_t, size_t) { return true; };
  // Without a mask the sparse mode has no effect.
  check({2, 4, 2, 3, 5, 4, true}, nullptr, ACLNN_SPARSE_DEFAULT, sees);
  check({2, 4, 2, 3, 5, 4, false}, nullptr, 6, sees);
}

TEST_F(AclnnAttentionTest, AMaskHidesKeys) {
  const std::vector<uint8_t> mask = {0, 1, 0, 0, 1, 0};
  const auto sees = [&](size_t i, size_t j) { return mask[i * 3 + j] == 0; };
  const Shape shape = {2, 2, 1, 2, 3, 2, true};
  check(shape, dense(ACL_BOOL, {2, 3}, mask), ACLNN_SPARSE_DEFAULT, sees);
  check(shape, dense(ACL_UINT8, {1, 1, 2, 3}, mask), ACLNN_SPARSE_DEFAULT, sees);
  std::vector<uint8_t> four;
  for (int i = 0; i < 4; ++i) four.insert(four.end(), mask.begin(), mask.end());
  check(shape, dense(ACL_BOOL, {2, 2, 2, 3}, four), ACLNN_SPARSE_DEFAULT, sees);
}

TEST_F(AclnnAttentionTest, MasksOfBatchesAndHeadsAreTheirOwn) {
  // Each of the four sees the one key that its mask does not hide.
  const std::vector<uint8_t> mask = {0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1};
  aclTensor* const q = floats({2, 1, 2, 1}, {1, 1, 1, 1});
  aclTensor* const v = floats({2, 3, 1, 1}, {1, 2, 3, 4, 5, 6});
  aclTensor* const most = result({2, 2, 1, 8});
  aclTensor* const out = result({2, 1, 2, 1});
  char layout[] = "BSND";
  EXPECT_EQ(ACLNN(FlashAttentionScore, q, v, v, nullptr, nullptr, nullptr,
                  dense(ACL_BOOL, {2, 2, 1, 3}, mask), nullptr, 1.0, 1.0, kFar, kFar, 2, layout, 0,
                  ACLNN_SPARSE_DEFAULT, most, most, nullptr, out),
            0);
  EXPECT_EQ(read(out), (std::vector<float>{1, 2, 6, 4}));
}

TEST_F(AclnnAttentionTest, CausalQueriesEndWithTheLastKey) {
  constexpr int64_t kExtent = ACLNN_CAUSAL_MASK_EXTENT;
  check({1, 2, 1, 3, 5, 2, true}, dense(ACL_BOOL, {kExtent, kExtent}, causal_mask()),
        ACLNN_SPARSE_RIGHT_DOWN_CAUSAL, [](size_t i, size_t j) { return j <= i + 2; });
}

TEST_F(AclnnAttentionTest, ACausalMaskThatIsNoneFailsTheStream) {
  constexpr int64_t kExtent = ACLNN_CAUSAL_MASK_EXTENT;
  std::vector<uint8_t> mask = causal_mask();
  mask[5] = 0;
  aclTensor* const x = floats({1, 2, 1, 1}, {1, 2});
  aclTensor* const most = result({1, 1, 2, 8});
  char layout[] = "BSND";
  EXPECT_EQ(ACLNN(FlashAttentionScore, x, x, x, nullptr, nullptr, nullptr,
                  dense(ACL_BOOL, {kExtent, kExtent}, mask), nullptr, 1.0, 1.0, kFar, kFar, 1,
                  layout, 0, ACLNN_SPARSE_RIGHT_DOWN_CAUSAL, most, most, nullptr, x),
            0);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(AclnnAttentionTest, AMaskBeyondNextTokensFailsTheStream) {
  aclTensor* const x = floats({1, 2, 1, 1}, {1, 2});
  aclTensor* const most = result({1, 1, 2, 8});
  char layout[] = "BSND";
  EXPECT_EQ(ACLNN(FlashAttentionScore, x, x, x, nullptr, nullptr, nullptr,
                  dense<uint8_t>(ACL_BOOL, {2, 2}, {0, 0, 0, 0}), nullptr, 1.0, 1.0, kFar,
                  /*nextTokens=*/0, 1, layout, 0, ACLNN_SPARSE_DEFAULT, most, most, nullptr, x),
            0);
  EXPECT_EQ(ACL(aclrtSynchronizeStream)(stream_), ACL_ERROR_RT_AICORE_EXCEPTION);
}

TEST_F(AclnnAttentionTest, ParametersThatDoNotFitAreRefused) {
  aclTensor* const q = result({1, 3, 2, 4});
  aclTensor* const k = result({1, 2, 1, 4});
  aclTensor* const rows = result({1, 2, 3, 8});
  char bsnd[] = "BSND";
  char bsh[] = "BSH";
  const auto call = [&](const aclTensor* key, const aclTensor* mask, int64_t mode, double keep,
                        int64_t heads, char* layout, const aclTensor* sums) {
    return ACLNN(FlashAttentionScore, q, key, k, nullptr, nullptr, nullptr, mask, nullptr, 1.0,
                 keep, kFar, kFar, heads, layout, 0, mode, rows, sums, nullptr, q);
  };
  EXPECT_EQ(call(k, nullptr, 0, 1, 2, bsnd, rows), 0);
  EXPECT_EQ(call(nullptr, nullptr, 0, 1, 2, bsnd, rows), kNullPointer);
  EXPECT_EQ(call(k, nullptr, 0, 1, 2, nullptr, rows), kNullPointer);
  EXPECT_EQ(call(k, nullptr, 0, 1, 2, bsnd, nullptr), kNullPointer);
  EXPECT_EQ(call(q, nullptr, 0, 1, 2, bsnd, rows), kBadParameter);
  EXPECT_EQ(call(k, nullptr, 0, 0.5, 2, bsnd, rows), kBadParameter);
  EXPECT_EQ(call(k, nullptr, 0, 1, 1, bsnd, rows), kBadParameter);
  EXPECT_EQ(call(k, nullptr, 0, 1, 2, bsh, rows), kBadParameter);
  EXPECT_EQ(call(k, nullptr, 0, 1, 2, bsnd, q), kBadParameter);
  EXPECT_EQ(call(k, rows, 0, 1, 2, bsnd, rows), kBadParameter);
  aclTensor* const small = dense<uint8_t>(ACL_BOOL, {3, 2}, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(call(k, small, 0, 1, 2, bsnd, rows), 0);
  EXPECT_EQ(call(k, small, 2, 1, 2, bsnd, rows), kBadParameter);
  EXPECT_EQ(call(k, small, 3, 1, 2, bsnd, rows), kBadParameter);
  // More queries than keys.
  constexpr int64_t kExtent = ACLNN_CAUSAL_MASK_EXTENT;
  aclTensor* const causal = dense(ACL_BOOL, {kExtent, kExtent}, causal_mask());
  EXPECT_EQ(call(k, causal, 3, 1, 2, bsnd, rows), kBadParameter);
  const auto call_grad = [&](const aclTensor* most, const aclTensor* dy, const aclTensor* dk) {
    return ACLNN(FlashAttentionScoreGrad, q, k, k, dy, nullptr, nullptr, nullptr, nullptr, most,
                 rows, nullptr, q, nullptr, 1.0, 1.0, kFar, kFar, 2, bsnd, 0, 0, q, dk, k, nullptr);
  };
  EXPECT_EQ(call_grad(rows, q, k), 0);
  EXPECT_EQ(call_grad(nullptr, q, k), kNullPointer);
  EXPECT_EQ(call_grad(q, q, k), kBadParameter);
  EXPECT_EQ(call_grad(rows, k, k), kBadParameter);
  EXPECT_EQ(call_grad(rows, q, q), kBadParameter);
}

}  // namespace
