// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <keel/parallel/engine.hpp>
#include <numeric>

namespace keel::parallel {
inline namespace v0 {

std::string Settings::text() const {
  const auto list = [](const auto& values) {
    std::string line;
    for (const auto& value : values) line += std::to_string(static_cast<int64_t>(value)) + ",";
    return line.empty() ? "-" : line;
  };
  char figures[160];
  std::snprintf(figures, sizeof(figures),
                " beta1=%.9g beta2=%.9g epsilon=%.9g decay=%.9g clip=%.9g", optimizer.beta1,
                optimizer.beta2, optimizer.epsilon, optimizer.weight_decay, optimizer.clip);
  return model.text() + " batch=" + std::to_string(batch) +
         " micro_batches=" + std::to_string(micro_batches) + " shares=" + list(shares) +
         " sharding=" + std::to_string(sharding) + " bucket_bytes=" + std::to_string(bucket_bytes) +
         " sequence_parallel=" + std::to_string(sequence_parallel ? 1 : 0) +
         " chunks=" + std::to_string(chunks) + " recompute=" + list(recompute) +
         " stage_layers=" + list(stage_layers) +
         " check_gradients=" + std::to_string(check_gradients ? 1 : 0) + figures;
}

std::vector<int64_t> shares_by_speed(int64_t sequences, const std::vector<double>& speeds) {
  const auto ranks = static_cast<int64_t>(speeds.size());
  if (sequences < ranks) {
    throw Error(KEEL_INVALID_ARGUMENT,
                std::to_string(sequences) + " sequences for " + std::to_string(ranks) + " ranks");
  }
  const double total = std::accumulate(speeds.begin(), speeds.end(), 0.0);
  if (!(total > 0) || std::any_of(speeds.begin(), speeds.end(), [](double s) { return s < 0; })) {
    throw Error(KEEL_INVALID_ARGUMENT, "speeds must not be negative, nor all 0");
  }
  std::vector<int64_t> shares(speeds.size());
  std::vector<double> wanted(speeds.size());
  int64_t given = 0;
  for (size_t i = 0; i < speeds.size(); ++i) {
    wanted[i] = static_cast<double>(sequences) * speeds[i] / total;
    shares[i] = std::max<int64_t>(1, static_cast<int64_t>(wanted[i]));
    given += shares[i];
  }
  // The rank that is furthest below, or above, its part gets, or gives, the next sequence.
  for (; given != sequences; given += given < sequences ? 1 : -1) {
    const bool add = given < sequences;
    size_t best = 0;
    double most = -1e300;
    for (size_t i = 0; i < shares.size(); ++i) {
      const double lack = wanted[i] - static_cast<double>(shares[i]);
      const double gain = add ? lack : -lack;
      if ((add || shares[i] > 1) && gain > most) {
        most = gain;
        best = i;
      }
    }
    shares[best] += add ? 1 : -1;
  }
  return shares;
}

}  // namespace v0
}  // namespace keel::parallel
