// SPDX-License-Identifier: Apache-2.0
// Tests that the same model, weights, text and settings give the same training as in PyTorch.
#include "samples/train_gpt/golden.h"

#include <algorithm>

#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {
namespace {

// The promised tolerance is 1e-3 of each gradient and 1e-4 of the losses. Two correct trainings
// with different rounding are a hundred times closer.
constexpr Tolerance kTolerance = {/*gradient=*/1e-5, /*loss=*/1e-5, /*gradient_norm=*/1e-5};

class GoldenTest : public ArchitectureTest {
 protected:
  GoldenTest() : golden_(read_golden(golden_folder(), GetParam())) {}

  Trainer trainer(const TrainingSettings& settings) {
    const std::vector<keel::Device> devices = {test_device()};
    Trainer trainer(devices, corpus_, golden_.layout, settings);
    trainer.set_values(golden_weights(golden_.layout));
    return trainer;
  }

  // Returns the gradient before clipping, from a training that does not clip.
  std::vector<float> first_gradient() {
    TrainingSettings settings = golden_.training;
    settings.optimizer.clip = 0;
    Trainer learner = trainer(settings);
    learner.train_step();
    std::vector<float> gradient(golden_.course.gradient.size());
    learner.weights().download_gradient(gradient);
    learner.stream().synchronize();
    return gradient;
  }

  keel::Runtime runtime_;
  const Golden golden_;
  const Corpus corpus_{golden_.text, golden_.layout.config().context};
};

TEST_P(GoldenTest, TrainsAsPyTorchDoes) {
  Course course;
  course.gradient = first_gradient();
  Trainer learner = trainer(golden_.training);
  while (learner.step() < golden_.training.steps) {
    const StepResult result = learner.train_step();
    course.losses.push_back(result.loss);
    course.gradient_norms.push_back(result.gradient_norm);
  }
  expect_close(course, golden_, kTolerance);
}

// Otherwise the comparison above would show little.
TEST_P(GoldenTest, LearnsAndClipsSomeSteps) {
  EXPECT_LT(golden_.course.losses.back(), 0.5 * golden_.course.losses.front());
  const std::vector<double>& norms = golden_.course.gradient_norms;
  const auto [least, largest] = std::minmax_element(norms.begin(), norms.end());
  EXPECT_LT(*least, golden_.training.optimizer.clip);
  EXPECT_GT(*largest, golden_.training.optimizer.clip);
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Values(Architecture::kGpt2, Architecture::kLlama),
                         architecture_name);

}  // namespace
}  // namespace train_gpt
