// SPDX-License-Identifier: Apache-2.0
// Checks that training on many chips equals training on one.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_
#define KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "samples/mixed_training/parameters.h"
#include "samples/mixed_training/trainer.h"

namespace mixed_training {

// Steps of the run on one chip.
inline constexpr int64_t kCheckSteps = 50;

struct Check {
  std::string name;
  double value;
  double limit;
  bool passed() const { return value <= limit; }  // NaN fails
};

// |a - b| / |b|, by the vectors' norms.
double relative_difference(std::span<const float> a, std::span<const float> b);

// Compares |run| with |reference|, a run with the same settings on one chip: the first gradient of
// each parameter, and the losses of the reference's steps. Also checks that all ranks of |run| hold
// bitwise equal summed gradients.
std::vector<Check> compare(const ParameterLayout& layout, const TrainingRun& run,
                           const TrainingRun& reference);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_
