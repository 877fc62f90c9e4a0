// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "ops/testing/case_builder.h"
#include "ops/testing/reference_fixture.h"

namespace keel::ops {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A vocabulary split into shards, and the ranks' combined result.
class Shards {
 public:
  Shards(const Host& logits, const std::vector<int64_t>& widths, std::vector<int32_t> labels)
      : labels_({logits.shape[0]}, std::move(labels)) {
    const int64_t rows = logits.shape[0];
    int64_t first = 0;
    for (const int64_t width : widths) {
      std::vector<float> values;
      for (int64_t row = 0; row < rows; ++row) {
        const auto from = logits.floats.begin() + row * logits.shape[1] + first;
        values.insert(values.end(), from, from + width);
      }
      shards_.push_back(std::make_unique<Host>(std::vector<int64_t>{rows, width}, values));
      firsts_.push_back(first);
      first += width;
    }
  }

  // Follows the recipe in the schema's text: logsumexp and loss.
  void forward(std::vector<double>* out_loss, std::vector<double>* out_logsumexp) {
    const auto rows = static_cast<size_t>(labels_.shape[0]);
    std::vector<ReferenceResult> parts;
    for (size_t s = 0; s < shards_.size(); ++s) {
      Host max(labels_.shape, std::vector<float>(rows));
      Host sum_exp(labels_.shape, std::vector<float>(rows));
      Host target(labels_.shape, std::vector<float>(rows));
      parts.push_back(run(KEEL_OP_CROSS_ENTROPY_SHARD, {&shards_[s]->tensor, &labels_.tensor},
                          {&max.tensor, &sum_exp.tensor, &target.tensor},
                          {int_attribute(firsts_[s])}));
    }
    out_loss->assign(rows, 0);
    out_logsumexp->assign(rows, 0);
    for (size_t row = 0; row < rows; ++row) {
      double top = -kInfinity;
      for (const ReferenceResult& part : parts) top = std::max(top, part.outputs[0].values[row]);
      double total = 0;
      double target = 0;
      for (const ReferenceResult& part : parts) {
        total += part.outputs[1].values[row] * std::exp(part.outputs[0].values[row] - top);
        target += part.outputs[2].values[row];
      }
      (*out_logsumexp)[row] = top + std::log(total);
      if (labels_.integers[row] >= 0) (*out_loss)[row] = (*out_logsumexp)[row] - target;
    }
  }

  // Returns dlogits of all shards side by side.
  std::vector<double> backward(const std::vector<double>& logsumexp, double scale) {
    const auto rows = static_cast<size_t>(labels_.shape[0]);
    Host sums(labels_.shape, std::vector<float>(logsumexp.begin(), logsumexp.end()));
    std::vector<std::vector<double>> parts;
    for (size_t s = 0; s < shards_.size(); ++s) {
      parts.push_back(run(KEEL_OP_CROSS_ENTROPY_SHARD_BACKWARD,
                          {&shards_[s]->tensor, &labels_.tensor, &sums.tensor},
                          {&shards_[s]->tensor},
                          {float_attribute(scale), int_attribute(firsts_[s])})
                          .outputs[0]
                          .values);
    }
    std::vector<double> all;
    for (size_t row = 0; row < rows; ++row) {
      for (size_t s = 0; s < shards_.size(); ++s) {
        const auto width = shards_[s]->shape[1];
        const auto from = parts[s].begin() + static_cast<int64_t>(row) * width;
        all.insert(all.end(), from, from + width);
      }
    }
    return all;
  }

 private:
  Host labels_;
  std::vector<std::unique_ptr<Host>> shards_;
  std::vector<int64_t> firsts_;
};

TEST(CrossEntropyShard, TogetherTheyAreCrossEntropy) {
  const std::vector<int32_t> labels = {6, 0, -1, 3};
  Host logits({4, 7}, random_floats(28, 0));
  logits.floats[9] = -kInfinity;  // masked
  for (float& value : logits.floats) value *= 5;
  Host whole_labels({4}, labels);
  Host loss({4}, std::vector<float>(4));
  Host logsumexp({4}, std::vector<float>(4));
  const ReferenceResult want = run(KEEL_OP_CROSS_ENTROPY, {&logits.tensor, &whole_labels.tensor},
                                   {&loss.tensor, &logsumexp.tensor});
  Shards shards(logits, {2, 4, 1}, labels);
  std::vector<double> got_loss;
  std::vector<double> got_logsumexp;
  shards.forward(&got_loss, &got_logsumexp);
  expect_near(got_loss, want.outputs[0].values, 1e-12);
  expect_near(got_logsumexp, want.outputs[1].values, 1e-12);

  for (size_t i = 0; i < 4; ++i) logsumexp.floats[i] = static_cast<float>(got_logsumexp[i]);
  expect_near(
      shards.backward(got_logsumexp, 0.25),
      run(KEEL_OP_CROSS_ENTROPY_BACKWARD, {&logits.tensor, &whole_labels.tensor, &logsumexp.tensor},
          {&logits.tensor}, {float_attribute(0.25)})
          .outputs[0]
          .values,
      1e-12);
}

TEST(CrossEntropyShard, AShardOfPaddingAddsNothing) {
  Host logits({1, 4}, std::vector<float>{1, 2, -kInfinity, -kInfinity});
  Shards shards(logits, {2, 2}, {1});
  std::vector<double> loss;
  std::vector<double> logsumexp;
  shards.forward(&loss, &logsumexp);
  expect_near(loss, {std::log(1 + std::exp(-1.0))}, 1e-12);
  const std::vector<double> gradient = shards.backward(logsumexp, 1);
  EXPECT_EQ(gradient[2], 0);
  EXPECT_EQ(gradient[3], 0);
}

TEST(CrossEntropyShard, NaNIsInTheSumAlone) {
  Host logits({2, 2}, std::vector<float>{std::nanf(""), 1, kInfinity, 1});
  Host labels({2}, std::vector<int32_t>{1, 1});
  Host out({2}, std::vector<float>(2));
  Host sum_exp({2}, std::vector<float>(2));
  Host target({2}, std::vector<float>(2));
  const ReferenceResult result =
      run(KEEL_OP_CROSS_ENTROPY_SHARD, {&logits.tensor, &labels.tensor},
          {&out.tensor, &sum_exp.tensor, &target.tensor}, {int_attribute(0)});
  EXPECT_EQ(result.outputs[0].values, (std::vector<double>{1, kInfinity}));
  EXPECT_TRUE(std::isnan(result.outputs[1].values[0]));
  EXPECT_TRUE(std::isnan(result.outputs[1].values[1]));
  EXPECT_EQ(result.outputs[2].values, (std::vector<double>{1, 1}));
}

// Through the recipe, with all shards at once.
TEST(Gradient, CrossEntropyShard) {
  const std::vector<int32_t> labels = {5, 0, -1, 3};
  Host logits({4, 6}, random_floats(24, 0));
  std::vector<double> loss;
  std::vector<double> logsumexp;
  const std::vector<double> want = central_differences(&logits.floats, [&] {
    Shards(logits, {3, 3}, labels).forward(&loss, &logsumexp);
    return 0.25 * std::accumulate(loss.begin(), loss.end(), 0.0);
  });
  Shards shards(logits, {3, 3}, labels);
  shards.forward(&loss, &logsumexp);
  expect_near(shards.backward(logsumexp, 0.25), want, 1e-6);
}

}  // namespace
}  // namespace keel::ops
