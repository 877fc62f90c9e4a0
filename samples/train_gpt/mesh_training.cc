// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/mesh_training.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
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

#include "samples/train_gpt/mesh_checkpoint.h"
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
  model.vocabulary = mesh.vocabulary;
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
  settings.precision = training.precision == Precision::kBFloat16 ? parallel::Precision::kBFloat16
                                                                  : parallel::Precision::kFloat32;
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
  // |files|: NULL for a text.
  Rank(keel::Communicator world, keel::Device device, const MeshRun& run,
       const parallel::TokenFiles* files, const Report& report)
      : run_(run),
        files_(files),
        training_(report.settings),
        model_(report.model),
        mesh_(std::move(world), device, parallel::MeshShape::parse(run.mesh.mesh)),
        engine_(mesh_, settings_of(report.model, report.settings, run.mesh),
                schedule_of(run.mesh, mesh_)) {
    if (run.resume) {
      load_checkpoint(engine_, parallel::Checkpoint::open(run.checkpoint));
    } else if (!run.initial.empty()) {
      engine_.set_values([&](const parallel::Parameter& parameter) {
        return initial_value(run.layout, run.initial, parameter);
      });
    }
    if (files != nullptr) {
      open_loader();
    } else {
      tokens_.resize(static_cast<size_t>(training_.batch * report.model.context));
      labels_.resize(tokens_.size());
    }
    if (run.checkpoint.empty()) return;
    writer_.emplace(run.checkpoint, mesh_.world(), device);
    trigger_.emplace(
        mesh_.world(), device,
        parallel::CheckpointTriggerOptions{.every_steps = run.checkpoint_every, .signal = SIGUSR1});
  }

  bool is_first() const { return mesh_.rank() == 0; }
  int64_t steps() const { return engine_.steps(); }
  // Every rank calls.
  std::string costs() { return parallel::Mesh::text(mesh_.measure(), mesh_.shape()); }

  // |record|: for timeline() or balance().
  StepResult train_step(bool record) {
    const int64_t step = engine_.steps();
    engine_.set_recorder(record ? &recorder_ : nullptr);
    if (record) {
      // Times of all ranks begin here.
      mesh_.world().barrier(engine_.stream());
      engine_.stream().synchronize();
      recorder_.start(engine_.stream());
    }
    const Clock::time_point start = Clock::now();
    const double rate = learning_rate(training_.optimizer, step, training_.steps);
    std::span<const int32_t> tokens = tokens_, labels = labels_;
    if (loader_) {
      const parallel::Loader::Batch& batch = loader_->next();
      check(batch);
      tokens = batch.tokens;
      labels = batch.labels;
    } else {
      run_.corpus->sequences(training_.seed, step * training_.batch, {tokens_, labels_});
    }
    if (record) recorder_.add_host_span(parallel::SpanKind::kLoader, start);
    const parallel::StepResult result =
        loader_ ? engine_.step_share(tokens, labels, rate) : engine_.step(tokens, labels, rate);
    const std::chrono::duration<double> seconds = Clock::now() - start;
    if (record) spans_ = recorder_.finish();
    return {result.step, result.loss, result.gradient_norm, seconds.count()};
  }

  // Every rank calls, behind a recorded step.
  void balance() {
    const std::vector<int64_t>& now = engine_.settings().shares;
    const std::vector<int64_t> shares =
        parallel::measured_shares(mesh_, now, parallel::computing_seconds(spans_));
    if (shares == now) return;
    if (is_first()) {
      std::string text;
      for (const int64_t share : shares) {
        text += (text.empty() ? "" : ", ") + std::to_string(share * run_.mesh.micro_batches);
      }
      std::printf("step %lld: shares of axis dp are %s sequences from here on\n",
                  static_cast<long long>(engine_.steps()), text.c_str());
    }
    engine_.set_shares(shares);
    if (!loader_) return;
    const parallel::LoaderState state = loader_->state();
    loader_.emplace(*files_, loader_options(), state);
  }

  // Every rank calls, behind a recorded step. |report| has the roofs; rank 0 gets the result.
  void timeline(Report& report) {
    parallel::RankSteps own;
    own.device = mesh_.device().name();
    own.spans = spans_;
    own.model_flops = engine_.step_flops();
    std::vector<parallel::RankSteps> ranks =
        parallel::gather_steps(mesh_.world(), engine_.stream(), own);
    if (!is_first()) return;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].peak_flops_per_s = report.roof_of(rank);
    }
    const parallel::StepReport step = parallel::analyse(ranks, engine_.bubble());
    std::string title = "step " + std::to_string(engine_.steps()) + ": " + mesh_.shape().text();
    if (mesh_.size_of("pp") > 1) title += ", " + run_.mesh.schedule;
    title += ", " + std::to_string(run_.mesh.micro_batches) + " micro-batches";
    report.timeline = {parallel::text(step), parallel::json(step), parallel::svg(ranks, title)};
  }

  // Every rank calls, behind each step. Before the first step and behind the last, waits for the
  // files; between, a failed save leaves the set before, and the training goes on.
  void save(bool wait) {
    if (!writer_) return;
    const int64_t step = engine_.steps();
    if (!wait && !trigger_->is_due(step)) return;
    try {
      writer_->wait();
    } catch (const keel::Error& error) {
      if (is_first()) {
        std::fprintf(stderr, "train_gpt: no checkpoint before step %lld: %s\n",
                     static_cast<long long>(step), error.what());
      }
    }
    parallel::CheckpointMetadata metadata =
        mesh_metadata(model_, training_, run_.corpus == nullptr ? 0 : run_.corpus->fingerprint(),
                      static_cast<size_t>(mesh_.size()));
    if (loader_) metadata["loader"] = loader_->state().text();
    writer_->save(step, checkpoint_pieces(engine_), metadata, engine_.stream());
    if (wait) writer_->wait();
  }

  double held_out_bits_per_byte(int64_t sequences) {
    if (run_.corpus == nullptr) return 0;
    sequences = std::min(sequences, run_.corpus->held_out_sequences());
    double sum = 0, count = 0;
    for (int64_t first = 0; first < sequences; first += training_.batch) {
      run_.corpus->held_out(first, {tokens_, labels_});
      const auto counted = static_cast<double>(labels_.size()) -
                           static_cast<double>(std::count(labels_.begin(), labels_.end(), -1));
      sum += counted * engine_.evaluate(tokens_, labels_);
      count += counted;
    }
    return count == 0 ? 0 : sum / count / std::numbers::ln2;
  }
  uint64_t peak_bytes() const { return engine_.peak_bytes(); }

  // Ends the waits of all other ranks.
  void abort() { mesh_.abort(); }

 private:
  parallel::LoaderOptions loader_options() const {
    const parallel::Engine::Share share = engine_.share();
    parallel::LoaderOptions options;
    options.seed = training_.seed;
    options.batch = training_.batch;
    options.first = share.first;
    options.count = share.count;
    return options;
  }

  void open_loader() {
    if (run_.resume) {
      loader_.emplace(*files_, loader_options(), parallel::LoaderState::parse(run_.loader_state));
    } else {
      loader_.emplace(*files_, loader_options());
    }
  }

  // Files of a larger vocabulary would read beyond the table of tokens.
  void check(const parallel::Loader::Batch& batch) const {
    for (const std::vector<int32_t>* part : {&batch.tokens, &batch.labels}) {
      const auto largest = std::max_element(part->begin(), part->end());
      if (largest == part->end() || *largest < run_.mesh.vocabulary) continue;
      throw std::runtime_error("--tokens: a file has the token " + std::to_string(*largest) +
                               ", above --vocabulary " + std::to_string(run_.mesh.vocabulary));
    }
  }

  const MeshRun& run_;
  const parallel::TokenFiles* files_;
  const TrainingSettings& training_;
  const ModelConfig& model_;
  parallel::Mesh mesh_;
  parallel::Engine engine_;
  std::vector<int32_t> tokens_, labels_;
  parallel::StepRecorder recorder_;
  std::vector<parallel::Span> spans_;  // of the last recorded step
  std::optional<parallel::Loader> loader_;
  std::optional<parallel::CheckpointWriter> writer_;
  std::optional<parallel::CheckpointTrigger> trigger_;
};

void train(Rank& rank, const MeshRun& run, Report& report) {
  const std::string costs = rank.costs();
  if (rank.is_first()) std::printf("%s", costs.c_str());
  // Saved before the first step, so that a path that cannot be written fails now.
  if (!run.resume) rank.save(/*wait=*/true);
  report.first_step = rank.steps() + 1;
  const Progress progress(report.settings.steps);
  const Clock::time_point start = Clock::now();
  size_t interval_begin = 0;
  const int64_t steps = report.settings.steps;
  while (rank.steps() < steps) {
    const int64_t step = rank.steps() + 1;
    const int64_t every = run.mesh.balance_every;
    const bool balances = every > 0 && step % every == 0 && step < steps;
    // The step before the last has the recorder's allocations.
    report.steps.push_back(rank.train_step(balances || (run.timeline && step + 1 >= steps)));
    if (balances) rank.balance();
    if (run.timeline && step == steps) rank.timeline(report);
    rank.save(/*wait=*/step == steps);
    report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!rank.is_first()) continue;
    if (step % run.report_every != 0 && step != steps) continue;
    report.intervals.push_back(report.interval(interval_begin));
    progress.show(report.intervals.back());
    interval_begin = report.steps.size();
  }
  const double bits = rank.held_out_bits_per_byte(run.held_out_sequences);
  if (!rank.is_first()) return;
  report.held_out_bits_per_byte = bits;
  report.activation_bytes = rank.peak_bytes();
}

}  // namespace

void train_on_mesh(const std::vector<keel::Device>& devices, int64_t own_rank, const MeshRun& run,
                   Report& report) {
  const Report beginning = report;  // other ranks read while rank 0 writes
  std::optional<parallel::TokenFiles> files;
  const auto run_rank = [&](keel::Communicator world, size_t rank) {
    Report own = beginning;
    Report& target = rank == 0 ? report : own;
    Rank trained(std::move(world), devices[rank], run, files ? &*files : nullptr, beginning);
    try {
      train(trained, run, target);
    } catch (...) {
      trained.abort();
      throw;
    }
  };
  try {
    const parallel::MeshShape shape = parallel::MeshShape::parse(run.mesh.mesh);
    if (shape.size() != static_cast<int64_t>(devices.size())) {
      throw keel::Error(KEEL_INVALID_ARGUMENT,
                        shape.text() + " has " + std::to_string(shape.size()) + " ranks for " +
                            std::to_string(devices.size()) + " --devices or processes");
    }
    if (run.corpus == nullptr) {
      files.emplace(
          run.mesh.tokens,
          run.mesh.token_bytes == 2 ? parallel::TokenWidth::k16 : parallel::TokenWidth::k32,
          report.model.context);
      report.text_bytes = files->samples() * report.model.context;
    }
    if (own_rank >= 0) {
      const auto rank = static_cast<size_t>(own_rank);
      run_rank(keel::Communicator::from_environment(devices[rank]), rank);
      return;
    }
    const keel_unique_id id = keel::make_unique_id();
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < devices.size(); ++rank) {
      threads.emplace_back([&, rank] {
        try {
          run_rank(keel::Communicator::join(devices[rank], id, static_cast<uint32_t>(rank),
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
