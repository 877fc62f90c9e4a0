// SPDX-License-Identifier: Apache-2.0
// Tests the content of a step's dump, and that the first differing tensor of two dumps is the right
// one.
#include "samples/train_gpt/dump.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "samples/train_gpt/test_fixture.h"
#include "tensorfile/comparison.h"
#include "tensorfile/order.h"

namespace train_gpt {
namespace {

using keel::tensorfile::Outcome;
using keel::tensorfile::SafetensorsFile;
using keel::tensorfile::TensorComparison;

constexpr const char* kFirstStep = "step_000001.safetensors";

class DumpTest : public ArchitectureTest {
 protected:
  DumpTest() : layout_(tiny_config(GetParam())), corpus_(lines_of_text(300), 8) {
    settings_.steps = 10;
    settings_.batch = 8;
  }
  // Dumps two steps of a training that starts from |values|.
  void dump(const std::string& name, const std::vector<float>& values, size_t devices = 1) {
    const std::vector<keel::Device> all(devices, test_device());
    Trainer trainer(all, corpus_, layout_, settings_);
    trainer.set_values(values);
    const Trainer::Observer observe = Dump(folder_ / name, /*steps=*/2);
    for (int step = 0; step < 3; ++step) losses_.push_back(trainer.train_step(observe).loss);
  }
  std::vector<TensorComparison> compare(const std::string& a, const std::string& b) const {
    std::vector<TensorComparison> all;
    keel::tensorfile::compare(folder_ / a, folder_ / b, {},
                              [&](const TensorComparison& each) { all.push_back(each); });
    return all;
  }
  // Returns the first differing tensor by |compare|; empty if none.
  std::string first_apart(const std::string& a, const std::string& b) const {
    for (const TensorComparison& each : compare(a, b)) {
      if (parts(each.outcome)) return each.file + ": " + each.name;
    }
    return {};
  }
  const Parameter& parameter(const std::string& name) const {
    return *std::find_if(layout_.all().begin(), layout_.all().end(),
                         [&](const Parameter& each) { return each.name == name; });
  }

  keel::Runtime runtime_;
  ParameterLayout layout_;
  Corpus corpus_;
  TrainingSettings settings_;
  std::vector<double> losses_;  // of all trainings
  Folder folder_;
};

TEST_P(DumpTest, HasActivationsLossAndEveryGradient) {
  dump("a", layout_.initial_values(1));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a/step_000003.safetensors"));
  const SafetensorsFile file(folder_ / "a" / kFirstStep);
  const std::vector<std::string> names = keel::tensorfile::ordered_names(file);
  ASSERT_GT(names.size(), 10U);
  EXPECT_EQ(
      std::vector(names.begin(), names.begin() + 8),
      (std::vector<std::string>{
          "activations.embedding", "activations.layers.0.attention", "activations.layers.0.output",
          "activations.layers.1.attention", "activations.layers.1.output", "losses", "loss",
          GetParam() == Architecture::kLlama ? "gradients.head.weight" : "gradients.norm.weight"}));
  EXPECT_EQ(names.size(), 7 + layout_.all().size());
  const std::vector<int64_t> tokens = {settings_.batch * layout_.config().context};
  EXPECT_EQ(file.tensors().at("activations.layers.1.output").shape,
            (std::vector<int64_t>{tokens[0], layout_.config().width}));
  EXPECT_NEAR(file.read_floats("loss", {})[0], losses_[0], 1e-5);
  const std::vector<float> losses = file.read_floats("losses", tokens);
  EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(tokens[0]),
              losses_[0], 1e-5);
  for (const Parameter& each : layout_.all()) {
    const std::vector<float> gradient = file.read_floats("gradients." + each.name, each.shape);
    EXPECT_TRUE(std::any_of(gradient.begin(), gradient.end(), [](float x) { return x != 0; }))
        << each.name;
  }
}

TEST_P(DumpTest, GradientIsNotClipped) {
  settings_.optimizer.clip = 0;
  dump("whole", layout_.initial_values(1));
  settings_.optimizer.clip = 1e-3;
  dump("clipped", layout_.initial_values(1));
  const SafetensorsFile whole(folder_ / "whole" / kFirstStep);
  const SafetensorsFile clipped(folder_ / "clipped" / kFirstStep);
  const Parameter& weight = parameter("layers.0.up.weight");
  EXPECT_TRUE(same_bits(whole.read_floats("gradients." + weight.name, weight.shape),
                        clipped.read_floats("gradients." + weight.name, weight.shape)));
}

TEST_P(DumpTest, SameTrainingIsTheSameToTheBit) {
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    settings_.precision = precision;
    const std::string run = name(precision);
    dump(run + "1", layout_.initial_values(1));
    dump(run + "2", layout_.initial_values(1));
    const auto all = compare(run + "1", run + "2");
    EXPECT_EQ(all.size(), 2 * (7 + layout_.all().size()));
    for (const TensorComparison& each : all) EXPECT_EQ(each.outcome, Outcome::kEqual) << each.name;
  }
}

TEST_P(DumpTest, PartsWhereAWeightIsAnother) {
  std::vector<float> values = layout_.initial_values(1);
  dump("a", values);
  const auto part_of = [&](const std::string& weight, int64_t row = 0) {
    std::vector<float> changed = values;
    const Parameter& where = parameter(weight);
    changed[static_cast<size_t>(where.offset + row * where.shape.back())] += 0.5F;
    dump(weight, changed);
    return first_apart("a", weight);
  };
  const std::string step = std::string(kFirstStep) + ": ";
  EXPECT_EQ(part_of("tokens.weight", /*row=*/'l'), step + "activations.embedding");
  EXPECT_EQ(part_of("layers.0.down.weight"), step + "activations.layers.0.output");
  EXPECT_EQ(part_of("layers.1.value.weight"), step + "activations.layers.1.attention");
  EXPECT_EQ(part_of("norm.weight"), step + "losses");
}

// A changed learning rate takes effect in the next step.
TEST_P(DumpTest, PartsAfterTheOptimizer) {
  dump("a", layout_.initial_values(1));
  settings_.optimizer.learning_rate *= 3;
  dump("b", layout_.initial_values(1));
  EXPECT_EQ(first_apart("a", "b"), "step_000002.safetensors: activations.embedding");
}

TEST_P(DumpTest, SeveralDevicesHaveTheWholeBatch) {
  dump("one", layout_.initial_values(1));
  dump("two", layout_.initial_values(1), /*devices=*/2);
  for (const TensorComparison& each : compare("one", "two")) {
    if (each.file != kFirstStep) continue;
    EXPECT_FALSE(parts(each.outcome)) << each.name << " " << each.difference.relative_norm;
    // Not bitwise: the order of a product's sums may depend on its number of rows.
    if (each.name.starts_with("activations")) {
      EXPECT_LT(each.difference.relative_norm, 1e-6) << each.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DumpTest, testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

}  // namespace
}  // namespace train_gpt
