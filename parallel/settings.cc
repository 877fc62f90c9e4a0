// SPDX-License-Identifier: Apache-2.0
#include "parallel/settings.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

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
         " precision=" + (precision == Precision::kFloat32 ? "fp32" : "bf16") +
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

namespace {

[[noreturn]] void refuse(const std::string& complaint) {
  throw Error(KEEL_INVALID_ARGUMENT, complaint);
}

std::string text(int64_t value) {
  return std::to_string(value);
}

}  // namespace

Settings complete(Settings settings, const Mesh& mesh, int64_t chunks) {
  const int64_t data = mesh.size_of("dp"), tensor = mesh.size_of("tp");
  const int64_t stages = mesh.size_of("pp") * chunks;
  for (const MeshShape::Axis& axis : mesh.shape().axes()) {
    const bool is_known = axis.name == "dp" || axis.name == "tp" || axis.name == "pp";
    if (!is_known && axis.size > 1)
      refuse("mesh axis " + axis.name + ": no strategy has that name");
  }
  check(settings.model, tensor);
  if (chunks > 1 && mesh.size_of("pp") == 1) refuse("several stages a rank need an axis pp");
  if (settings.sharding < 0 || settings.sharding > 3) refuse("sharding is not 0 to 3");
  if (settings.micro_batches < 1) refuse("micro_batches must be at least 1");
  if (settings.shares.empty()) {
    if (settings.batch % (data * settings.micro_batches) != 0) {
      refuse("batch " + text(settings.batch) + " cannot be divided by " + text(data) +
             " ranks of axis dp times " + text(settings.micro_batches) + " micro-batches");
    }
    settings.shares.assign(static_cast<size_t>(data),
                           settings.batch / data / settings.micro_batches);
  }
  const std::vector<int64_t>& shares = settings.shares;
  const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (static_cast<int64_t>(shares.size()) != data ||
      std::any_of(shares.begin(), shares.end(), [](int64_t share) { return share < 1; }) ||
      sum * settings.micro_batches != settings.batch) {
    refuse("shares must be " + text(data) + " numbers above 0 with the sum batch / micro_batches");
  }
  if (settings.sequence_parallel) {
    for (const int64_t share : shares) {
      if (share * settings.model.context % tensor != 0) {
        refuse(text(share * settings.model.context) +
               " tokens of a micro-batch cannot be divided by the " + text(tensor) +
               " ranks of axis tp, as sequence_parallel needs");
      }
    }
  }
  if (settings.recompute.size() > 1 &&
      static_cast<int64_t>(settings.recompute.size()) != settings.model.layers) {
    refuse("recompute has " + text(static_cast<int64_t>(settings.recompute.size())) +
           " entries for " + text(settings.model.layers) + " layers");
  }
  std::vector<int64_t>& layers = settings.stage_layers;
  if (layers.empty()) {
    if (settings.model.layers < stages) {
      refuse(text(settings.model.layers) + " layers for " + text(stages) + " stages");
    }
    for (int64_t stage = 0; stage < stages; ++stage) {
      layers.push_back(settings.model.layers * (stage + 1) / stages -
                       settings.model.layers * stage / stages);
    }
  }
  if (static_cast<int64_t>(layers.size()) != stages ||
      std::any_of(layers.begin(), layers.end(), [](int64_t count) { return count < 0; }) ||
      std::accumulate(layers.begin(), layers.end(), int64_t{0}) != settings.model.layers) {
    refuse("stage_layers must be " + text(stages) + " numbers with the sum " +
           text(settings.model.layers));
  }
  return settings;
}

}  // namespace keel::parallel
