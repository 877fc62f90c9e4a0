// SPDX-License-Identifier: Apache-2.0
// The goldens: what PyTorch makes of a model and its training. goldens.py writes them.
#ifndef KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_
#define KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_

#include <filesystem>
#include <string>
#include <vector>

#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/trainer.h"

namespace train_gpt {

// What is compared of two trainings.
struct Course {
  std::vector<float> gradient;         // before the first step, as the layout has it
  std::vector<double> losses;          // of each step
  std::vector<double> gradient_norms;  // of each step, before it was clipped
};

struct Golden {
  ParameterLayout layout;
  TrainingSettings training;
  std::string text;  // that is learned
  Course course;
};

// The golden of |architecture| in |folder|; throws FileError, or another std::exception where the
// file is no golden.
Golden read_golden(const std::filesystem::path& folder, Architecture architecture);
// Those in the source tree.
std::filesystem::path golden_folder();

// The weights that the training begins with, by the formula that goldens.py has too.
std::vector<float> golden_weights(const ParameterLayout& layout);

// How far two courses may be apart.
struct Tolerance {
  double gradient;       // norm of the difference over the norm, of each parameter
  double loss;           // nats
  double gradient_norm;  // over the norm
};

// Fails the running test where |course| is further from the golden's, naming parameter or step.
void expect_close(const Course& course, const Golden& golden, const Tolerance& tolerance);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_
