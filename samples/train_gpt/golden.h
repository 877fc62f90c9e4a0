// SPDX-License-Identifier: Apache-2.0
// The goldens: PyTorch's results for a model and its training. goldens.py writes them.
#ifndef KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_
#define KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_

#include <filesystem>
#include <string>
#include <vector>

#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/trainer.h"

namespace train_gpt {

// The values compared between two trainings.
struct Course {
  std::vector<float> gradient;         // before the first step, in the layout's order
  std::vector<double> losses;          // of each step
  std::vector<double> gradient_norms;  // of each step, before clipping
};

struct Golden {
  ParameterLayout layout;
  TrainingSettings training;
  std::string text;  // the training text
  Course course;
};

// Reads the golden of |architecture| in |folder|. Throws FileError, or another std::exception if
// the file is not a golden.
Golden read_golden(const std::filesystem::path& folder, Architecture architecture);
// Returns the folder of the goldens in the source tree.
std::filesystem::path golden_folder();

// Returns the initial weights, by the same formula as goldens.py.
std::vector<float> golden_weights(const ParameterLayout& layout);

// The largest allowed differences between two courses.
struct Tolerance {
  double gradient;       // norm of the difference / norm, per parameter
  double loss;           // nats
  double gradient_norm;  // relative
};

// Fails the running test if |course| differs from the golden's by more than |tolerance|; the
// message names the parameter or step.
void expect_close(const Course& course, const Golden& golden, const Tolerance& tolerance);

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_GOLDEN_H_
