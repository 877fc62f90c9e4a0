// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace train_gpt {
namespace {

using Clock = std::chrono::steady_clock;

// Chips round AdamW differently, so copies of the weights drift apart by units in the last place.
// Copying rank 0's weights from time to time keeps the copies one model.
constexpr int64_t kAlignEvery = 100;

}  // namespace

Trainer::Trainer(std::span<const keel::Device> devices, const Corpus& corpus,
                 const ParameterLayout& layout, const TrainingSettings& settings)
    : Trainer(devices, keel::Communicator::all(devices), corpus, layout, settings) {}

Trainer::Trainer(std::span<const keel::Device> devices, std::vector<keel::Communicator> ranks,
                 const Corpus& corpus, const ParameterLayout& layout,
                 const TrainingSettings& settings)
    : corpus_(corpus),
      layout_(layout),
      settings_(settings),
      text_(corpus.fingerprint()),
      ranks_(std::move(ranks)),
      world_(ranks_[0].world()),
      first_rank_(ranks_[0].rank()),
      figures_(devices[0], KEEL_MEMORY_PINNED, sizeof(Figures)) {
  if (settings.batch < world_ || settings.batch % world_ != 0) {
    throw std::invalid_argument("--batch " + std::to_string(settings.batch) +
                                " is not a multiple of the " + std::to_string(world_) + " devices");
  }
  for (keel::Device device : devices) {
    workers_.push_back(
        std::make_unique<Worker>(device, layout, settings.precision, settings.batch / world_));
  }
  set_values(layout.initial_values(settings.seed));
}

void Trainer::set_values(std::span<const float> values) {
  complete([&] {
    for (const auto& worker : workers_) worker->weights.upload(values);
  });
}

void Trainer::restore(const TrainingState& state) {
  if (state.text != text_) {
    throw std::invalid_argument(
        "the checkpoint's position is one of another text; give the --text that it was trained on");
  }
  step_ = state.step;
  next_sequence_ = state.next_sequence;
  settings_.seed = state.seed;
  complete([&] {
    for (const auto& worker : workers_) {
      worker->weights.upload(state.values);
      worker->optimizer.upload(state.first_moment, state.second_moment);
    }
  });
}

TrainingState Trainer::state() {
  align_replicas();
  TrainingState state;
  state.step = step_;
  state.next_sequence = next_sequence_;
  state.seed = settings_.seed;
  state.text = text_;
  state.settings = settings_;
  state.devices = world_;
  const auto size = static_cast<size_t>(layout_.size());
  state.values.resize(size);
  state.first_moment.resize(size);
  state.second_moment.resize(size);
  complete([&] {
    workers_[0]->weights.download(state.values);
    workers_[0]->optimizer.download(state.first_moment, state.second_moment);
  });
  check_finite(state);
  return state;
}

void Trainer::check_finite(const TrainingState& state) const {
  for (const auto& floats : {&state.values, &state.first_moment, &state.second_moment}) {
    for (const Parameter& parameter : layout_.all()) {
      const auto first = floats->begin() + parameter.offset;
      if (std::all_of(first, first + parameter.size, [](float x) { return std::isfinite(x); })) {
        continue;
      }
      throw std::runtime_error(
          parameter.name + (floats == &state.values ? "" : ", a moment of its gradient,") +
          " is not finite after step " + std::to_string(step_) + "; nothing is saved of it");
    }
  }
}

StepResult Trainer::train_step(const Observer& observe) {
  const Clock::time_point start = Clock::now();
  // A token counts 1 / tokens on any device, so the sum of the devices' gradients is the gradient
  // of the whole batch.
  const double scale = 1.0 / static_cast<double>(settings_.batch * layout_.config().context);
  complete([&] { enqueue_step(scale, observe); });
  ++step_;
  if (step_ % kAlignEvery == 0) align_replicas();
  const auto& figures = *static_cast<const Figures*>(figures_.data());
  const StepResult result = {step_, figures.loss * scale,
                             std::sqrt(static_cast<double>(figures.squared_norm)),
                             std::chrono::duration<double>(Clock::now() - start).count()};
  // The loss belongs to the weights before the step; the gradient shows whether the new weights are
  // valid.
  const bool has_loss = std::isfinite(result.loss);
  if (!has_loss || figures.found != 0 || !std::isfinite(result.gradient_norm)) {
    throw std::runtime_error(std::string(has_loss ? "the gradient" : "the loss") +
                             " is not finite in step " + std::to_string(step_) +
                             "; a smaller --learning-rate may help");
  }
  return result;
}

void Trainer::enqueue_step(double scale, const Observer& observe) {
  int64_t next = next_sequence_ + first_rank_ * settings_.batch / world_;
  for (const auto& worker : workers_) {
    corpus_.sequences(settings_.seed, next, worker->network.next_batch());
    next += worker->network.sequences();
  }
  next_sequence_ += settings_.batch;
  for (const auto& worker : workers_) {
    worker->network.forward();
    worker->network.backward(scale);
  }
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const keel::Buffer& gradient = workers_[rank]->weights.gradient();
    ranks_[rank].all_reduce(gradient.data(), gradient.data(),
                            static_cast<uint64_t>(layout_.size()) + 1, KEEL_FLOAT32, KEEL_SUM,
                            workers_[rank]->stream);
  }
  if (observe) observe(*this);
  const double rate = learning_rate(settings_.optimizer, step_, settings_.steps);
  for (const auto& worker : workers_) {
    worker->optimizer.update(worker->weights, settings_.optimizer, rate, step_ + 1);
  }
  auto* const figures = static_cast<Figures*>(figures_.data());
  Worker& first = *workers_[0];
  const keel_tensor sum = first.weights.loss();
  first.stream.copy(keel::Device(), &figures->loss, first.stream.device(),
                    static_cast<const std::byte*>(sum.data) + sum.byte_offset, sizeof(float));
  first.optimizer.read_norm(&figures->squared_norm, &figures->found);
}

double Trainer::held_out_bits_per_byte(int64_t sequences) {
  Network& network = workers_[0]->network;
  sequences = std::min(sequences, corpus_.held_out_sequences());
  std::vector<float> losses(static_cast<size_t>(network.sequences() * layout_.config().context));
  double nats = 0;
  for (int64_t first = 0; first < sequences; first += network.sequences()) {
    corpus_.held_out(first, network.next_batch());
    network.forward();
    network.read_losses(losses);
    workers_[0]->stream.synchronize();
    const int64_t counted = std::min(network.sequences(), sequences - first);
    nats =
        std::accumulate(losses.begin(), losses.begin() + counted * layout_.config().context, nats);
  }
  return nats / static_cast<double>(sequences * layout_.config().context) / std::numbers::ln2;
}

void Trainer::align_replicas() {
  if (world_ == 1) return;
  const auto broadcast = [&](const auto& buffer_of) {
    for (size_t rank = 0; rank < workers_.size(); ++rank) {
      void* data = buffer_of(*workers_[rank]).data();
      ranks_[rank].broadcast(data, data, static_cast<uint64_t>(layout_.size()), KEEL_FLOAT32,
                             /*root=*/0, workers_[rank]->stream);
    }
  };
  complete([&] {
    broadcast([](const Worker& worker) -> const keel::Buffer& { return worker.weights.values(); });
    broadcast([](const Worker& worker) -> const keel::Buffer& {
      return worker.optimizer.first_moment();
    });
    broadcast([](const Worker& worker) -> const keel::Buffer& {
      return worker.optimizer.second_moment();
    });
    for (const auto& worker : workers_) worker->weights.refresh();
  });
}

void Trainer::complete(const std::function<void()>& enqueue) {
  std::exception_ptr failure;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  };
  attempt(enqueue);
  // After a failed enqueue, other ranks would wait for this rank until their timeout.
  if (failure) attempt([&] { ranks_[0].abort(); });
  for (const auto& worker : workers_) attempt([&] { worker->stream.synchronize(); });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace train_gpt
