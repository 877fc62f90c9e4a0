// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: the same model on every device, each with its part of the batch. The
// devices may belong to several processes.
#ifndef KEEL_SAMPLES_TRAIN_GPT_TRAINER_H_
#define KEEL_SAMPLES_TRAIN_GPT_TRAINER_H_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "samples/train_gpt/checkpoint.h"
#include "samples/train_gpt/data.h"
#include "samples/train_gpt/network.h"
#include "samples/train_gpt/optimizer.h"
#include "samples/train_gpt/parameters.h"
#include "samples/train_gpt/settings.h"

namespace train_gpt {

struct StepResult {
  int64_t step;          // counts from 1
  double loss;           // mean, nats per byte
  double gradient_norm;  // before clipping
  double seconds;
};

// Two trainers with the same settings see the same batches, for any number of devices. One thread
// drives all devices: it enqueues every device's work before it waits for any device.
class Trainer {
 public:
  // |corpus| and |layout| must outlive the trainer. |settings|.batch is a multiple of the number of
  // devices.
  Trainer(std::span<const keel::Device> devices, const Corpus& corpus,
          const ParameterLayout& layout, const TrainingSettings& settings);
  // For a communicator across processes: |ranks| are this process's ranks, consecutive, one per
  // device. The other processes construct a trainer likewise, with the same corpus, layout and
  // settings.
  Trainer(std::span<const keel::Device> devices, std::vector<keel::Communicator> ranks,
          const Corpus& corpus, const ParameterLayout& layout, const TrainingSettings& settings);

  int64_t step() const { return step_; }              // steps done
  size_t workers() const { return workers_.size(); }  // devices of this process
  // True in one process only: the others have the same weights and need not report.
  bool is_first() const { return first_rank_ == 0; }

  // Replaces the training state by |state|, from load_checkpoint, including its seed. Throws
  // std::invalid_argument if |state| belongs to another text.
  void restore(const TrainingState& state);
  // Sets only the weights.
  void set_values(std::span<const float> values);
  // Returns the state for save_checkpoint; all processes take part. Copies rank 0's state to all
  // devices, bit for bit, so that a resumed training equals the continued one, even if chips round
  // differently. Throws std::runtime_error, naming the parameter, if a value is not finite: an
  // unusable state must not replace an older one.
  TrainingState state();

  // Called in each step after the gradients and before the optimizer changes any value.
  using Observer = std::function<void(Trainer&)>;
  // Runs one step. Throws std::runtime_error when the loss or the gradient is no longer finite; the
  // weights are lost then.
  StepResult train_step(const Observer& observe = {});

  // Returns the mean bits per byte of the first |sequences| held-out sequences, on the first
  // device.
  double held_out_bits_per_byte(int64_t sequences);

  // This process's devices, for inspection or text generation.
  keel::Stream& stream(size_t worker = 0) { return workers_[worker]->stream; }
  Weights& weights(size_t worker = 0) { return workers_[worker]->weights; }
  Network& network(size_t worker = 0) { return workers_[worker]->network; }
  uint64_t activation_bytes() const { return workers_[0]->network.activation_bytes(); }

 private:
  struct Worker {
    Worker(keel::Device device, const ParameterLayout& layout, Precision precision,
           int64_t sequences)
        : stream(device),
          weights(stream, layout, precision),
          network(stream, weights, sequences),
          optimizer(stream, layout) {}

    keel::Stream stream;
    Weights weights;
    Network network;
    Optimizer optimizer;
  };

  // A step's results, copied to the host.
  struct Figures {
    float loss, squared_norm;
    int32_t found;  // 1: the gradient has an element that is not finite
  };

  void enqueue_step(double scale, const Observer& observe);
  void check_finite(const TrainingState& state) const;
  void align_replicas();
  // Calls |enqueue|, then waits for all devices even if |enqueue| or a device fails: the other
  // devices may still access memory of the caller. Throws the first failure.
  void complete(const std::function<void()>& enqueue);

  const Corpus& corpus_;
  const ParameterLayout& layout_;
  TrainingSettings settings_;
  uint64_t text_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<keel::Communicator> ranks_;  // the workers' ranks
  int64_t world_;                          // devices of all processes
  int64_t first_rank_;
  keel::Buffer figures_;  // pinned: Figures
  int64_t step_ = 0;
  int64_t next_sequence_ = 0;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_TRAINER_H_
