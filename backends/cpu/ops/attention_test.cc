// SPDX-License-Identifier: Apache-2.0
// attention and its gradient over several blocks of queries and keys, and on parts of one packed
// tensor.
#include <pthread.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <keel/float_types.hpp>
#include <limits>
#include <string>

#include "backends/cpu/testing/ops_fixture.h"

namespace keel::cpu::testing {
namespace {

// With three cores the gradients of two key heads are not computed head by head.
INSTANTIATE_TEST_SUITE_P(Cores, CpuOps, ::testing::Values("1", "2", "3"),
                         [](const auto& info) { return std::string("cores") + info.param; });

constexpr int64_t kTokens = 700;  // six blocks of queries, three of keys
constexpr int64_t kHeads = 4;
constexpr int64_t kKvHeads = 2;
constexpr int64_t kWidth = 24;
constexpr double kScale = 0.2;

// Dropout of weights; none by default.
struct Dropout {
  double p = 0;
  int64_t seed = 0;
  int64_t offset = 0;
};

// The attributes of both operators.
std::vector<keel_attribute> attributes(double scale, bool causal, const Dropout& dropout = {}) {
  return {real(scale), integer(causal ? 1 : 0), real(dropout.p), integer(dropout.seed),
          integer(dropout.offset)};
}

int64_t query_at(int64_t token, int64_t head) {
  return (token * kHeads + head) * kWidth;
}

int64_t key_at(int64_t token, int64_t head) {
  return (token * kKvHeads + head / (kHeads / kKvHeads)) * kWidth;
}

double dot(const std::vector<float>& a, int64_t a_at, const std::vector<float>& b, int64_t b_at) {
  double sum = 0;
  for (int64_t l = 0; l < kWidth; ++l) {
    sum += double{a[static_cast<size_t>(a_at + l)]} * double{b[static_cast<size_t>(b_at + l)]};
  }
  return sum;
}

struct Expected {
  std::vector<double> out, logsumexp, dq, dk, dv;
};

// [1,kHeads,queries,keys]; no mask if |values| is empty.
struct TestMask {
  int64_t queries = 0, keys = 0;
  std::vector<float> values = {};

  // Query and key within their sequence.
  double at(int64_t head, int64_t query, int64_t key) const {
    if (values.empty()) return 0;
    if (query >= queries || key >= keys) return -std::numeric_limits<double>::infinity();
    return double{values[static_cast<size_t>((head * queries + query) * keys + key)]};
  }
};

// A simple reference of both directions, for causal sequences that begin at |boundaries|. |factors|
// are those of dropout, [kHeads,kTokens,kTokens], or empty.
Expected expected(const std::vector<float>& q, const std::vector<float>& k,
                  const std::vector<float>& v, const std::vector<float>& dout,
                  const std::vector<int32_t>& boundaries, const TestMask& mask,
                  const std::vector<float>& factors) {
  const auto factor = [&](int64_t h, int64_t i, int64_t j) {
    return factors.empty() ? 1.0
                           : double{factors[static_cast<size_t>((h * kTokens + i) * kTokens + j)]};
  };
  Expected want = {std::vector<double>(q.size()), std::vector<double>(kHeads * kTokens),
                   std::vector<double>(q.size()), std::vector<double>(k.size()),
                   std::vector<double>(k.size())};
  for (size_t s = 0; s + 1 < boundaries.size(); ++s) {
    for (int64_t i = boundaries[s]; i < boundaries[s + 1]; ++i) {
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t query = query_at(i, h);
        std::vector<double> p;
        double total = 0;
        for (int64_t j = boundaries[s]; j <= i; ++j) {
          p.push_back(std::exp(kScale * dot(q, query, k, key_at(j, h)) +
                               mask.at(h, i - boundaries[s], j - boundaries[s])));
          total += p.back();
        }
        want.logsumexp[static_cast<size_t>(h * kTokens + i)] = std::log(total);
        if (total == 0) continue;
        double own = 0;
        for (int64_t j = boundaries[s]; j <= i; ++j) {
          double& weight = p[static_cast<size_t>(j - boundaries[s])];
          weight /= total;
          own += weight * factor(h, i, j) * dot(dout, query, v, key_at(j, h));
        }
        for (int64_t j = boundaries[s]; j <= i; ++j) {
          const double weight = p[static_cast<size_t>(j - boundaries[s])];
          const int64_t key = key_at(j, h);
          const double kept = factor(h, i, j);
          const double slope = kScale * weight * (kept * dot(dout, query, v, key) - own);
          for (int64_t l = 0; l < kWidth; ++l) {
            const auto at_q = static_cast<size_t>(query + l);
            const auto at_k = static_cast<size_t>(key + l);
            want.out[at_q] += kept * weight * double{v[at_k]};
            want.dq[at_q] += slope * double{k[at_k]};
            want.dk[at_k] += slope * double{q[at_q]};
            want.dv[at_k] += kept * weight * double{dout[at_q]};
          }
        }
      }
    }
  }
  return want;
}

void expect_close(const std::vector<float>& actual, const std::vector<double>& want) {
  expect_near(
      actual, [&](size_t i) { return want[i]; }, 2e-5, 2e-5);
}

// Runs both directions over several blocks of queries and keys.
class CpuAttentionBlocks : public CpuOps {
 protected:
  void check(const TestMask& given = {}, const Dropout& dropout = {});

 private:
  // Returns the factors of all weights; empty without dropout.
  std::vector<float> factors(const Dropout& dropout);
};

INSTANTIATE_TEST_SUITE_P(Cores, CpuAttentionBlocks, ::testing::Values("1", "2", "3"),
                         [](const auto& info) { return std::string("cores") + info.param; });

std::vector<float> CpuAttentionBlocks::factors(const Dropout& dropout) {
  if (dropout.p == 0) return {};
  static_assert(kTokens % 4 == 0);  // rows need no rounding
  const DeviceTensor ones =
      floats({kHeads, kTokens, kTokens}, std::vector<float>(kHeads * kTokens * kTokens, 1.0f));
  const DeviceTensor result(device(), KEEL_FLOAT32, {kHeads, kTokens, kTokens});
  run(KEEL_OP_DROPOUT_ADD, {ones, nullptr, nullptr}, {result},
      {real(dropout.p), integer(dropout.seed), integer(dropout.offset)});
  return values(result);
}

void CpuAttentionBlocks::check(const TestMask& given, const Dropout& dropout) {
  const std::vector<float> q = random_values(kTokens * kHeads * kWidth, 1);
  const std::vector<float> k = random_values(kTokens * kKvHeads * kWidth, 2);
  const std::vector<float> v = random_values(kTokens * kKvHeads * kWidth, 3);
  const std::vector<float> dout = random_values(q.size(), 4);
  const std::vector<int32_t> boundaries = {0, 77, 77, 430, kTokens};
  const Expected want = expected(q, k, v, dout, boundaries, given, factors(dropout));
  const DeviceTensor q_tensor = floats({kTokens, kHeads, kWidth}, q);
  const DeviceTensor k_tensor = floats({kTokens, kKvHeads, kWidth}, k);
  const DeviceTensor v_tensor = floats({kTokens, kKvHeads, kWidth}, v);
  const DeviceTensor dout_tensor = floats({kTokens, kHeads, kWidth}, dout);
  const DeviceTensor cu = tensor(KEEL_INT32, {5}, boundaries);
  DeviceTensor out(device(), KEEL_FLOAT32, {kTokens, kHeads, kWidth});
  DeviceTensor logsumexp(device(), KEEL_FLOAT32, {kHeads, kTokens});
  const DeviceTensor mask_tensor = floats({1, kHeads, given.queries, given.keys}, given.values);
  const keel_tensor* const mask =
      given.values.empty() ? nullptr : static_cast<const keel_tensor*>(mask_tensor);
  run(KEEL_OP_ATTENTION, {q_tensor, k_tensor, v_tensor, cu, cu, mask}, {out, logsumexp},
      attributes(kScale, /*causal=*/true, dropout));
  expect_close(values(out), want.out);
  expect_close(values(logsumexp), want.logsumexp);
  DeviceTensor dq(device(), KEEL_FLOAT32, {kTokens, kHeads, kWidth});
  DeviceTensor dk(device(), KEEL_FLOAT32, {kTokens, kKvHeads, kWidth});
  DeviceTensor dv(device(), KEEL_FLOAT32, {kTokens, kKvHeads, kWidth});
  run(KEEL_OP_ATTENTION_BACKWARD,
      {q_tensor, k_tensor, v_tensor, out, dout_tensor, logsumexp, cu, cu, mask}, {dq, dk, dv},
      attributes(kScale, /*causal=*/true, dropout));
  expect_close(values(dq), want.dq);
  expect_close(values(dk), want.dk);
  expect_close(values(dv), want.dv);
}

TEST_P(CpuAttentionBlocks, AttentionAndItsGradient) {
  check();
}

// The mask hides the last queries and keys of the longest sequence, and a block of keys from one
// query.
TEST_P(CpuAttentionBlocks, AttentionWithAMaskAndItsGradient) {
  TestMask mask = {300, 290, random_values(kHeads * 300 * 290, 6)};
  for (size_t i = 0; i < mask.values.size(); i += 7) {
    mask.values[i] = -std::numeric_limits<float>::infinity();
  }
  std::fill_n(mask.values.begin() + 295 * 290, 280, -std::numeric_limits<float>::infinity());
  check(mask);
}

TEST_P(CpuAttentionBlocks, AttentionWithDropoutAndItsGradient) {
  check({}, {.p = 0.25, .seed = 5, .offset = 7});
}

// Like in frameworks: one product computes the heads of q, k and v of a token side by side.
TEST_P(CpuOps, AttentionReadsPartsOfOneTensor) {
  constexpr int64_t kRow = 3 * kHeads * kWidth;
  const std::vector<float> packed = random_values(kTokens * kRow, 5);
  const DeviceTensor whole = floats({kTokens, 3 * kHeads, kWidth}, packed);
  const auto part = [&](uint64_t index) {
    keel_tensor view = *static_cast<const keel_tensor*>(whole);
    view.shape[1] = kHeads;
    view.byte_offset = index * kHeads * kWidth * sizeof(float);
    return view;
  };
  const keel_tensor views[] = {part(0), part(1), part(2)};
  std::vector<float> dense[3];
  for (int64_t token = 0; token < kTokens; ++token) {
    for (size_t index = 0; index < 3; ++index) {
      const auto begin = packed.begin() + token * kRow + static_cast<int64_t>(index) * kRow / 3;
      dense[index].insert(dense[index].end(), begin, begin + kRow / 3);
    }
  }
  const DeviceTensor q = floats({kTokens, kHeads, kWidth}, dense[0]);
  const DeviceTensor k = floats({kTokens, kHeads, kWidth}, dense[1]);
  const DeviceTensor v = floats({kTokens, kHeads, kWidth}, dense[2]);
  DeviceTensor out(device(), KEEL_FLOAT32, {kTokens, kHeads, kWidth});
  DeviceTensor again(device(), KEEL_FLOAT32, {kTokens, kHeads, kWidth});
  DeviceTensor logsumexp(device(), KEEL_FLOAT32, {kHeads, kTokens});
  run(KEEL_OP_ATTENTION, {q, k, v, nullptr, nullptr, nullptr}, {out, logsumexp},
      attributes(kScale, /*causal=*/false));
  run(KEEL_OP_ATTENTION, {&views[0], &views[1], &views[2], nullptr, nullptr, nullptr},
      {again, logsumexp}, attributes(kScale, /*causal=*/false));
  EXPECT_EQ(values(out), values(again));
}

// The concatenated results of attention and its gradient, for causal packed sequences of |width|,
// on a device of |cores| cores.
template <typename Element, typename Convert>
std::vector<Element> results_of(const char* cores, int64_t width, keel_dtype dtype,
                                Convert convert) {
  OpRunner runner(cores);
  const auto heads = [&](int64_t count, uint32_t seed) {
    const auto drawn = random_values(static_cast<size_t>(kTokens * count * width), seed);
    return runner.tensor(dtype, {kTokens, count, width}, narrowed<Element>(drawn, convert));
  };
  const DeviceTensor q = heads(kHeads, 1), k = heads(kKvHeads, 2), v = heads(kKvHeads, 3);
  const DeviceTensor dout = heads(kHeads, 4), out = heads(kHeads, 5), dq = heads(kHeads, 6);
  const DeviceTensor dk = heads(kKvHeads, 7), dv = heads(kKvHeads, 8);
  const DeviceTensor logsumexp(runner.device(), KEEL_FLOAT32, {kHeads, kTokens});
  const DeviceTensor cu = runner.tensor<int32_t>(KEEL_INT32, {3}, {0, 300, kTokens});
  runner.run(KEEL_OP_ATTENTION, {q, k, v, cu, cu, nullptr}, {out, logsumexp},
             attributes(0.1, /*causal=*/true));
  runner.run(KEEL_OP_ATTENTION_BACKWARD, {q, k, v, out, dout, logsumexp, cu, cu, nullptr},
             {dq, dk, dv}, attributes(0.1, /*causal=*/true));
  std::vector<Element> all;
  for (const DeviceTensor* each : {&out, &dq, &dk, &dv}) {
    const auto values = runner.values<Element>(*each);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(CpuAttention, ResultsDoNotDependOnTheNumberOfCores) {
  const auto same = [](float value) { return value; };
  for (const int64_t width : {24, 64}) {
    const auto one = results_of<float>("1", width, KEEL_FLOAT32, same);
    EXPECT_EQ(one, results_of<float>("2", width, KEEL_FLOAT32, same)) << width;
    EXPECT_EQ(one, results_of<float>("3", width, KEEL_FLOAT32, same)) << width;
  }
}

// A process may limit its threads to a small stack.
TEST(CpuAttention, RunsOnThreadsOfASmallStack) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a thread under the thread sanitizer does not begin with a small stack";
#endif
  pthread_attr_t before, small;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_getattr_default_np(&small), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&small, size_t{256} << 10), 0);
  ASSERT_EQ(pthread_setattr_default_np(&small), 0);
  const auto results = results_of<bfloat16_t>("2", 256, KEEL_BFLOAT16, to_bfloat16);
  EXPECT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_EQ(results, results_of<bfloat16_t>("2", 256, KEEL_BFLOAT16, to_bfloat16));
}

int64_t resident_kib(const char* which) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t value = 0;
    if (word == which && status >> value) return value;
  }
  return 0;
}

// The weights of 8192 tokens for each other take 256 MiB; only a block of the weights may exist at
// a time.
TEST(CpuAttention, NeverHoldsAllWeightsAtOnce) {
  constexpr int64_t kLong = 8192;
  constexpr int64_t kNarrow = 16;
  OpRunner runner("2");
  const auto heads = [&](uint32_t seed) {
    return runner.tensor(KEEL_FLOAT32, {kLong, 1, kNarrow},
                         random_values(static_cast<size_t>(kLong * kNarrow), seed));
  };
  const DeviceTensor q = heads(1), k = heads(2), v = heads(3), dout = heads(4), out = heads(5);
  const DeviceTensor dq = heads(6), dk = heads(7), dv = heads(8);
  const DeviceTensor logsumexp(runner.device(), KEEL_FLOAT32, {1, kLong});
  // Resets the process's peak memory.
  if (!(std::ofstream("/proc/self/clear_refs") << 5 << std::flush)) {
    GTEST_SKIP() << "a process here cannot begin its peak of memory anew";
  }
  const int64_t before = resident_kib("VmRSS:");
  runner.run(KEEL_OP_ATTENTION, {q, k, v, nullptr, nullptr, nullptr}, {out, logsumexp},
             attributes(0.25, /*causal=*/true));
  runner.run(KEEL_OP_ATTENTION_BACKWARD, {q, k, v, out, dout, logsumexp, nullptr, nullptr, nullptr},
             {dq, dk, dv}, attributes(0.25, /*causal=*/true));
  EXPECT_LT(resident_kib("VmHWM:") - before, 64 << 10);
}

}  // namespace
}  // namespace keel::cpu::testing
