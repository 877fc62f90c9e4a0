// SPDX-License-Identifier: Apache-2.0
// Tests the gradients of whole models against central differences of their losses.
#include "samples/train_gpt/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {
namespace {

constexpr int64_t kSequences = 3;

class TinyModel {
 public:
  TinyModel(const ModelConfig& config, Precision precision)
      : stream_(test_device()),
        layout_(config),
        weights_(stream_, layout_, precision),
        network_(stream_, weights_, kSequences) {
    const Batch batch = network_.next_batch();
    std::mt19937 generator(11);
    for (int32_t& token : batch.tokens) token = static_cast<int32_t>(generator() % kVocabulary);
    for (int32_t& label : batch.labels) label = static_cast<int32_t>(generator() % kVocabulary);
    batch.tokens[5] = batch.tokens[4];  // a table row with two gradients
    batch.labels[7] = -1;               // a label that does not count
  }

  const ParameterLayout& layout() const { return layout_; }
  int64_t tokens() const { return kSequences * layout_.config().context; }

  // Large everywhere, unlike the initial values of a training, so that every term of the gradient
  // matters.
  std::vector<float> values() const {
    std::vector<float> values(static_cast<size_t>(layout_.size()), 0.0F);
    std::mt19937 generator(5);
    std::normal_distribution<float> normal(0.0F, 0.3F);
    for (const Parameter& parameter : layout_.all()) {
      for (int64_t i = 0; i < parameter.size; ++i) {
        values[static_cast<size_t>(parameter.offset + i)] = parameter.mean + normal(generator);
      }
    }
    return values;
  }

  // Returns the mean loss over the tokens.
  double loss(const std::vector<float>& values) {
    weights_.upload(values);
    network_.forward();
    std::vector<float> losses(static_cast<size_t>(tokens()));
    network_.read_losses(losses);
    stream_.synchronize();
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(tokens());
  }
  std::vector<float> gradient(const std::vector<float>& values) {
    weights_.upload(values);
    network_.forward();
    network_.backward(1.0 / static_cast<double>(tokens()));
    std::vector<float> gradient(values.size());
    weights_.download_gradient(gradient);
    stream_.synchronize();
    return gradient;
  }

 private:
  keel::Stream stream_;
  ParameterLayout layout_;
  Weights weights_;
  Network network_;
};

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

// Returns every second element of |parameter|'s part of |gradient|; |odd|: the other elements.
std::vector<float> half_of(const std::vector<float>& gradient, const Parameter& parameter,
                           int64_t odd) {
  std::vector<float> half(gradient.size(), 0.0F);
  for (int64_t i = odd; i < parameter.size; i += 2) {
    const auto at = static_cast<size_t>(parameter.offset + i);
    half[at] = gradient[at];
  }
  return half;
}

class GradientTest : public ArchitectureTest {
 protected:
  keel::Runtime runtime_;
};

// Along half of a parameter's own gradient, the loss rises by the norm of the half. A wrong element
// is detected: the products of the true and the wrong gradient's halves differ.
TEST_P(GradientTest, IsThatOfCentralDifferences) {
  constexpr double kDistance = 0.01;
  TinyModel model(tiny_config(GetParam()), Precision::kFloat32);
  const std::vector<float> values = model.values();
  const std::vector<float> gradient = model.gradient(values);
  for (const Parameter& parameter : model.layout().all()) {
    for (int64_t odd = 0; odd < 2; ++odd) {
      const std::vector<float> direction = half_of(gradient, parameter, odd);
      const double slope = norm(direction);
      ASSERT_TRUE(std::isfinite(slope)) << parameter.name;
      if (slope < 1e-6) continue;  // a key's bias shifts all scores of a query equally
      const auto moved = [&](double distance) {
        std::vector<float> all = values;
        for (size_t i = 0; i < all.size(); ++i) {
          all[i] += static_cast<float>(distance / slope * direction[i]);
        }
        return all;
      };
      const double difference =
          (model.loss(moved(kDistance)) - model.loss(moved(-kDistance))) / (2 * kDistance);
      EXPECT_NEAR(difference, slope, 0.01 * slope + 2e-4) << parameter.name;
    }
  }
}

TEST_P(GradientTest, ReachesEveryParameter) {
  TinyModel model(tiny_config(GetParam()), Precision::kFloat32);
  const std::vector<float> gradient = model.gradient(model.values());
  for (const Parameter& parameter : model.layout().all()) {
    if (parameter.name.find("key.bias") != std::string::npos) continue;
    EXPECT_GT(norm(half_of(gradient, parameter, 0)), 1e-5) << parameter.name;
  }
}

TEST_P(GradientTest, GapsOfTheLayoutStayZero) {
  TinyModel model(tiny_config(GetParam()), Precision::kFloat32);
  std::vector<float> gradient = model.gradient(model.values());
  for (const Parameter& parameter : model.layout().all()) {
    std::fill_n(gradient.begin() + parameter.offset, parameter.size, 0.0F);
  }
  EXPECT_EQ(norm(gradient), 0);
}

TEST_P(GradientTest, OfRoundedProductsIsClose) {
  const ModelConfig config = tiny_config(GetParam());
  TinyModel exact(config, Precision::kFloat32);
  TinyModel rounded(config, Precision::kBFloat16);
  const std::vector<float> values = exact.values();
  const double loss = exact.loss(values);
  EXPECT_NEAR(rounded.loss(values), loss, 0.02 * loss);
  const std::vector<float> want = exact.gradient(values);
  std::vector<float> difference = rounded.gradient(values);
  EXPECT_FALSE(same_bits(difference, want)) << "nothing was rounded";
  for (size_t i = 0; i < want.size(); ++i) difference[i] -= want[i];
  EXPECT_LT(norm(difference), 0.05 * norm(want));
}

TEST_P(GradientTest, IsTheSameToTheBitTwice) {
  TinyModel model(tiny_config(GetParam()), Precision::kFloat32);
  const std::vector<float> first = model.gradient(model.values());
  EXPECT_TRUE(same_bits(first, model.gradient(model.values())));
}

// Later tokens must not change earlier logits.
TEST_P(GradientTest, LooksAtNothingThatComesLater) {
  keel::Stream stream(test_device());
  const ParameterLayout layout(tiny_config(GetParam()));
  Weights weights(stream, layout, Precision::kFloat32);
  const std::vector<float> values = layout.initial_values(3);
  weights.upload(values);
  Network network(stream, weights, /*sequences=*/2);
  const auto logits = [&](int32_t last) {
    const Batch batch = network.next_batch();
    std::fill(batch.tokens.begin(), batch.tokens.end(), 65);
    std::fill(batch.labels.begin(), batch.labels.end(), 0);
    batch.tokens[4] = last;
    network.forward();
    std::vector<float> rows(2 * kVocabulary);
    network.read_logits(3, std::span(rows).first(kVocabulary));
    network.read_logits(layout.config().context + 5, std::span(rows).last(kVocabulary));
    stream.synchronize();
    return rows;
  };
  EXPECT_TRUE(same_bits(logits(66), logits(67))) << "of token 3, or of the other sequence";
}

INSTANTIATE_TEST_SUITE_P(All, GradientTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

}  // namespace
}  // namespace train_gpt
