// SPDX-License-Identifier: Apache-2.0
// Whether training on many chips at once is the same training as on one.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_
#define KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "samples/mixed_training/parameters.h"
#include "samples/mixed_training/trainer.h"

namespace mixed_training {

// Steps that the run on one chip takes.
inline constexpr int64_t kCheckSteps = 50;

struct Check {
  std::string name;
  double value;
  double limit;
  bool passed() const { return value <= limit; }  // NaN fails
};

// |a - b| / |b|, of the vectors' norms.
double relative_difference(std::span<const float> a, std::span<const float> b);

// Compares |run| with |reference|, a run of the same settings on one chip: of each
// parameter the first gradient, and the losses of the reference's steps. And that all
// ranks of |run| hold the same bits of the summed gradient.
std::vector<Check> compare(const ParameterLayout& layout, const TrainingRun& run,
                           const TrainingRun& reference);

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_CHECKS_H_
