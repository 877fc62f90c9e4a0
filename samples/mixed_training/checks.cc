// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace mixed_training {
namespace {

// float32 sums over a batch, in another order and another split, through three layers, differ by
// about 1e-6. A row lost or counted twice makes 1e-3 at a batch of 512.
constexpr double kGradientLimit = 1e-3;
// Differences grow from step to step, like any rounding error in training.
constexpr double kLossLimit = 1e-4;

double count_different_bits(const std::vector<std::vector<float>>& gradients) {
  double different = 0;
  for (const std::vector<float>& gradient : gradients) {
    for (size_t i = 0; i < gradient.size(); ++i) {
      if (std::memcmp(&gradient[i], &gradients[0][i], sizeof(float)) != 0) ++different;
    }
  }
  return different;
}

}  // namespace

double relative_difference(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference) / std::sqrt(norm);
}

std::vector<Check> compare(const ParameterLayout& layout, const TrainingRun& run,
                           const TrainingRun& reference) {
  std::vector<Check> checks;
  checks.push_back({"floats of the summed gradient whose bits differ between ranks",
                    count_different_bits(run.first_gradients), 0});
  for (const Parameter& parameter : layout.all()) {
    const auto part = [&](const TrainingRun& of) {
      return std::span(of.first_gradients[0])
          .subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    };
    checks.push_back({std::string("first gradient of ") + parameter.name,
                      relative_difference(part(run), part(reference)), kGradientLimit});
  }
  double worst = 0;
  for (size_t step = 0; step < reference.losses.size(); ++step) {
    const double expected = reference.losses[step];
    const double difference = std::abs(run.losses[step] - expected) / expected;
    // std::max drops a NaN.
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
  }
  checks.push_back({"loss of the first " + std::to_string(reference.losses.size()) +
                        " steps, where it differs most",
                    worst, kLossLimit});
  return checks;
}

}  // namespace mixed_training
