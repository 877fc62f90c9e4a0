// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace mixed_training {
namespace {

using Clock = std::chrono::steady_clock;

// Often enough to follow a machine with other programs; rarely enough that a window averages over
// outliers of single steps.
constexpr int64_t kRebalanceEvery = 10;
constexpr int64_t kWarmupSteps = 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

Trainer::Trainer(std::span<const keel::Device> devices, const Corpus& corpus,
                 const TrainingSettings& settings)
    : corpus_(corpus),
      settings_(settings),
      layout_(settings.hidden),
      ranks_(keel::Communicator::all(devices)),
      shares_(settings.batch, devices.size()),
      host_loss_(keel::Buffer::of<float>(devices[0], 1, KEEL_MEMORY_PINNED)) {
  const std::vector<float> initial = layout_.initial_values(settings.seed);
  for (keel::Device device : devices) {
    workers_.push_back(std::make_unique<Worker>(device, layout_, settings.batch));
    workers_.back()->model.load(initial);
  }
  synchronize();
}

TrainingRun Trainer::run(int64_t steps, const std::function<void(const Interval&)>& report) {
  TrainingRun run;
  for (const auto& worker : workers_) {
    run.devices.push_back(worker->model.stream().device().name());
  }
  const Clock::time_point start = Clock::now();
  double interval_loss = 0;
  int64_t interval_steps = 0;
  while (step_ < steps) {
    if (step_ % kRebalanceEvery == 0) rebalance(run);
    run.losses.push_back(step());
    if (step_ == 1) run.first_gradients = gradients();
    interval_loss += run.losses.back();
    ++interval_steps;
    if (step_ % settings_.report_every != 0 && step_ != steps) continue;
    broadcast_parameters();
    Interval interval;
    interval.step = step_;
    interval.seconds = seconds_since(start);
    interval.loss = interval_loss / static_cast<double>(interval_steps) / std::numbers::ln2;
    interval.bytes_per_second = static_cast<double>(step_ * settings_.batch) / interval.seconds;
    interval.rows.assign(shares_.rows().begin(), shares_.rows().end());
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      interval.compute_speeds.push_back(shares_.mean_speed(rank));
    }
    if (report) report(interval);
    run.intervals.push_back(std::move(interval));
    interval_loss = 0;
    interval_steps = 0;
  }
  run.seconds = seconds_since(start);
  return run;
}

// Enqueues every device's work before the host waits for any device, so that all run at once.
// Returns the loss in nats per byte.
double Trainer::step() {
  int64_t first_row = 0;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const int64_t rows = shares_.rows()[rank];
    corpus_.sample(settings_.seed, step_, first_row, workers_[rank]->model.next_batch(rows));
    first_row += rows;
  }
  // A row counts 1 / batch on any device, so the sum of the devices' gradients is the gradient of
  // the whole batch, whatever the shares.
  const double scale = 1.0 / static_cast<double>(settings_.batch);
  for (const auto& worker : workers_) {
    worker->clock.start(worker->model.stream());
    worker->model.forward();
    worker->model.backward(scale);
    worker->clock.stop(worker->model.stream());
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Model& model = workers_[rank]->model;
    ranks_[rank].all_reduce(model.gradient().data(), model.gradient().data(),
                            static_cast<uint64_t>(layout_.size() + 1), KEEL_FLOAT32, KEEL_SUM,
                            model.stream());
  }
  AdamW update{.learning_rate = learning_rate()};
  update.step = step_ + 1;
  for (const auto& worker : workers_) worker->model.update(update);
  workers_[0]->model.read_loss(static_cast<float*>(host_loss_.data()));
  synchronize();
  // The first step compiles kernels, so its times are ignored.
  for (size_t rank = 0; step_ > 0 && rank < workers_.size(); ++rank) {
    shares_.add(rank, workers_[rank]->clock.elapsed());
  }
  ++step_;
  const double loss = *static_cast<const float*>(host_loss_.data()) * scale;
  if (!std::isfinite(loss)) {
    throw std::runtime_error("the loss is not finite after step " + std::to_string(step_) +
                             "; a smaller --learning-rate may help");
  }
  return loss;
}

// Linear warm-up, then a cosine down to a tenth.
double Trainer::learning_rate() const {
  const double warmup = static_cast<double>(step_ + 1) / kWarmupSteps;
  const double progress = static_cast<double>(step_) / static_cast<double>(settings_.steps);
  const double cosine = 0.55 + 0.45 * std::cos(std::numbers::pi * progress);
  return settings_.learning_rate * std::min(1.0, warmup) * cosine;
}

void Trainer::rebalance(TrainingRun& run) {
  shares_.rebalance();
  const std::vector<int64_t> rows(shares_.rows().begin(), shares_.rows().end());
  if (run.shares.empty() || run.shares.back().rows != rows) run.shares.push_back({step_, rows});
}

// All devices get bitwise equal gradients, but each chip rounds AdamW differently, so the
// parameters drift apart by units in the last place. Broadcasting rank 0's from time to time keeps
// the copies one model. The moments need no broadcast because they decay: a rounding error shrinks
// to a third after 1/(1 - beta) steps.
void Trainer::broadcast_parameters() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Model& model = workers_[rank]->model;
    ranks_[rank].broadcast(model.parameters().data(), model.parameters().data(),
                           static_cast<uint64_t>(layout_.size()), KEEL_FLOAT32, /*root=*/0,
                           model.stream());
  }
  synchronize();
}

std::vector<std::vector<float>> Trainer::gradients() {
  std::vector<std::vector<float>> gradients;
  for (const auto& worker : workers_) {
    gradients.emplace_back(static_cast<size_t>(layout_.size()));
    worker->model.read_gradient(gradients.back());
  }
  synchronize();
  return gradients;
}

void Trainer::synchronize() {
  for (const auto& worker : workers_) worker->model.stream().synchronize();
}

}  // namespace mixed_training
