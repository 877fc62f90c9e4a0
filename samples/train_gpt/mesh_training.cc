// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/mesh_training.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <keel/parallel.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <optional>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "samples/train_gpt/optimizer.h"

namespace train_gpt {
namespace {

namespace parallel = keel::parallel;
using Clock = std::chrono::steady_clock;

parallel::Settings settings_of(const ModelConfig& config, const TrainingSettings& training,
                               const MeshSettings& mesh) {
  parallel::Settings settings;
  parallel::ModelShape& model = settings.model;
  model.architecture =
      config.is_llama() ? parallel::Architecture::kLlama : parallel::Architecture::kGpt2;
  model.vocabulary = kVocabulary;
  model.layers = config.layers;
  model.width = config.width;
  model.heads = config.heads;
  model.kv_heads = config.kv_heads;
  model.mlp_width = config.mlp_width;
  model.context = config.context;
  model.norm_epsilon = config.norm_epsilon;
  model.rope_theta = config.rope_theta;
  settings.seed = training.seed;
  settings.batch = training.batch;
  settings.micro_batches = mesh.micro_batches;
  settings.sharding = mesh.sharding;
  settings.sequence_parallel = mesh.sequence_parallel;
  settings.chunks = mesh.chunks;
  settings.recompute = {mesh.recompute == "full"        ? parallel::Recompute::kFull
                        : mesh.recompute == "selective" ? parallel::Recompute::kSelective
                                                        : parallel::Recompute::kNone};
  settings.optimizer = {training.optimizer.beta1, training.optimizer.beta2,
                        training.optimizer.epsilon, training.optimizer.weight_decay,
                        training.optimizer.clip};
  return settings;
}

// The trainer's initial value of a parameter. This sample has Llama's gate and up in one matrix.
std::vector<float> initial_value(const ParameterLayout& layout, const std::vector<float>& values,
                                 const parallel::Parameter& wanted) {
  std::string name = wanted.name;
  const size_t gate = name.find(".gate.");
  if (gate != std::string::npos) name.replace(gate, 6, ".up.");
  for (const Parameter& parameter : layout.all()) {
    if (parameter.name != name) continue;
    int64_t first = parameter.offset;
    // The second half of gate | up.
    if (gate == std::string::npos && parameter.size == 2 * wanted.full_size()) {
      first += wanted.full_size();
    }
    return {values.begin() + first, values.begin() + first + wanted.full_size()};
  }
  throw std::runtime_error("no initial value of " + wanted.name);
}

// NULL: the engine's own.
std::shared_ptr<parallel::Schedule> schedule_of(const MeshSettings& settings,
                                                const parallel::Mesh& mesh) {
  if (settings.schedule == "fill-drain" || mesh.size_of("pp") == 1) return nullptr;
  parallel::Settings sizes;
  sizes.micro_batches = settings.micro_batches;
  const uint32_t chunks = settings.schedule.starts_with("interleaved") ? 2 : 1;
  return parallel::pipelined(settings.schedule, mesh, sizes, chunks);
}

// One rank of the training.
class Rank {
 public:
  Rank(keel::Communicator world, keel::Device device, const Corpus& corpus,
       const ParameterLayout& layout, const MeshSettings& settings, const Report& report)
      : corpus_(corpus),
        training_(report.settings),
        mesh_(std::move(world), device, parallel::MeshShape::parse(settings.mesh)),
        engine_(mesh_, settings_of(report.model, report.settings, settings),
                schedule_of(settings, mesh_)),
        tokens_(static_cast<size_t>(training_.batch * report.model.context)),
        labels_(tokens_.size()) {
    const std::vector<float> values = layout.initial_values(training_.seed);
    engine_.set_values([&](const parallel::Parameter& parameter) {
      return initial_value(layout, values, parameter);
    });
  }

  bool is_first() const { return mesh_.rank() == 0; }
  // Every rank calls.
  std::string costs() { return parallel::Mesh::text(mesh_.measure(), mesh_.shape()); }

  StepResult train_step() {
    const int64_t step = engine_.steps();
    const Clock::time_point start = Clock::now();
    corpus_.sequences(training_.seed, step * training_.batch, {tokens_, labels_});
    const parallel::StepResult result =
        engine_.step(tokens_, labels_, learning_rate(training_.optimizer, step, training_.steps));
    const std::chrono::duration<double> seconds = Clock::now() - start;
    return {result.step, result.loss, result.gradient_norm, seconds.count()};
  }

  double held_out_bits_per_byte(int64_t sequences) {
    sequences = std::min(sequences, corpus_.held_out_sequences());
    double sum = 0, count = 0;
    for (int64_t first = 0; first < sequences; first += training_.batch) {
      corpus_.held_out(first, {tokens_, labels_});
      const auto counted = static_cast<double>(labels_.size()) -
                           static_cast<double>(std::count(labels_.begin(), labels_.end(), -1));
      sum += counted * engine_.evaluate(tokens_, labels_);
      count += counted;
    }
    return count == 0 ? 0 : sum / count / std::numbers::ln2;
  }
  uint64_t peak_bytes() const { return engine_.peak_bytes(); }

  // Ends the waits of all other ranks.
  void abort() {
    mesh_.world().abort();
    for (const parallel::MeshShape::Axis& axis : mesh_.shape().axes()) {
      if (axis.size > 1) mesh_.axis(axis.name).abort();
    }
  }

 private:
  const Corpus& corpus_;
  const TrainingSettings& training_;
  parallel::Mesh mesh_;
  parallel::Engine engine_;
  std::vector<int32_t> tokens_, labels_;
};

void train(Rank& rank, int64_t report_every, int64_t held_out, Report& report) {
  const std::string costs = rank.costs();
  if (rank.is_first()) std::printf("%s", costs.c_str());
  const Progress progress(report.settings.steps);
  const Clock::time_point start = Clock::now();
  size_t interval_begin = 0;
  const int64_t steps = report.settings.steps;
  for (int64_t step = 1; step <= steps; ++step) {
    const StepResult result = rank.train_step();
    if (!rank.is_first()) continue;
    report.steps.push_back(result);
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (step % report_every != 0 && step != steps) continue;
    report.intervals.push_back(report.interval(interval_begin));
    progress.show(report.intervals.back());
    interval_begin = report.steps.size();
  }
  const double bits = rank.held_out_bits_per_byte(held_out);
  if (!rank.is_first()) return;
  report.held_out_bits_per_byte = bits;
  report.activation_bytes = rank.peak_bytes();
}

}  // namespace

void train_on_mesh(const std::vector<keel::Device>& devices, int64_t own_rank, const Corpus& corpus,
                   const ParameterLayout& layout, const MeshSettings& mesh, int64_t report_every,
                   int64_t held_out_sequences, Report& report) {
  const Report beginning = report;  // other ranks read while rank 0 writes
  const auto run = [&](keel::Communicator world, size_t rank) {
    Report own = beginning;
    Report& target = rank == 0 ? report : own;
    Rank trained(std::move(world), devices[rank], corpus, layout, mesh, beginning);
    try {
      train(trained, report_every, held_out_sequences, target);
    } catch (...) {
      trained.abort();
      throw;
    }
  };
  try {
    const parallel::MeshShape shape = parallel::MeshShape::parse(mesh.mesh);
    if (shape.size() != static_cast<int64_t>(devices.size())) {
      throw keel::Error(KEEL_INVALID_ARGUMENT,
                        shape.text() + " has " + std::to_string(shape.size()) + " ranks for " +
                            std::to_string(devices.size()) + " --devices or processes");
    }
    if (own_rank >= 0) {
      const auto rank = static_cast<size_t>(own_rank);
      run(keel::Communicator::from_environment(devices[rank]), rank);
      return;
    }
    const keel_unique_id id = keel::make_unique_id();
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          run(keel::Communicator::join(devices[rank], id, static_cast<uint32_t>(rank),
                                       static_cast<uint32_t>(devices.size())),
              rank);
        } catch (const keel::Error& error) {
          // A rank that another one aborted says less than that one.
          const std::lock_guard lock(mutex);
          if (!failure || error.status() != KEEL_ABORTED) failure = std::current_exception();
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
  } catch (const keel::Error& error) {
    if (error.status() == KEEL_INVALID_ARGUMENT) {
      throw std::invalid_argument(std::string("--mesh ") + error.what());
    }
    throw;
  }
}

}  // namespace train_gpt
