// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: the same model on every device, each with its part of the batch. The
// devices may be those of several processes.
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
  double gradient_norm;  // before it was clipped
  double seconds;
};

// Two trainers of the same settings see the same batches, however many devices they have. One
// thread drives all devices: it enqueues every device's work before it waits for any.
class Trainer {
 public:
  // |corpus| and |layout| outlive the trainer. |settings|.batch is a multiple of the devices.
  Trainer(std::span<const keel::Device> devices, const Corpus& corpus,
          const ParameterLayout& layout, const TrainingSettings& settings);
  // The same with |ranks|, one a device and one behind the other, of a communicator that has those
  // of other processes too. These do the same then, with the same corpus, layout and settings.
  Trainer(std::span<const keel::Device> devices, std::vector<keel::Communicator> ranks,
          const Corpus& corpus, const ParameterLayout& layout, const TrainingSettings& settings);

  int64_t step() const { return step_; }              // steps done
  size_t workers() const { return workers_.size(); }  // devices of this process
  // Of several processes, one alone: the others have the same weights, and nothing else to tell.
  bool is_first() const { return first_rank_ == 0; }

  // Forgets what was learned for |state|, of load_checkpoint; throws std::invalid_argument where
  // that is of another text. The seed becomes the state's.
  void restore(const TrainingState& state);
  // Sets the weights alone.
  void set_values(std::span<const float> values);
  // For save_checkpoint; all processes take part. All devices have rank 0's state then, to the bit:
  // so a training that is resumed does what the one that went on does, also where chips round in
  // ways of their own. Throws std::runtime_error, naming the parameter, where one of it is not
  // finite: a state that no training can go on from should replace no other.
  TrainingState state();

  // Sees all that the step calculated before the optimizer changes anything of it.
  using Observer = std::function<void(Trainer&)>;
  // One step. Throws std::runtime_error when the loss or the gradient is not finite any more;
  // the weights are lost then.
  StepResult train_step(const Observer& observe = {});

  // Mean bits per byte of the first |sequences| of the held-out text, on the first device.
  double held_out_bits_per_byte(int64_t sequences);

  // To look at, or to write text with; of this process's devices.
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

  // What a step tells the host.
  struct Figures {
    float loss, squared_norm;
    int32_t found;  // 1: an element of the gradient is not finite
  };

  void enqueue_step(double scale, const Observer& observe);
  void check_finite(const TrainingState& state) const;
  void align_replicas();
  // Calls |enqueue| and waits for all devices, whatever it or one of them throws: the others may
  // still read or write memory that goes with the caller. Throws the first failure.
  void complete(const std::function<void()>& enqueue);

  const Corpus& corpus_;
  const ParameterLayout& layout_;
  TrainingSettings settings_;
  uint64_t text_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<keel::Communicator> ranks_;  // of the workers
  int64_t world_;                          // devices of all processes
  int64_t first_rank_;
  keel::Buffer figures_;  // pinned: Figures
  int64_t step_ = 0;
  int64_t next_sequence_ = 0;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_TRAINER_H_
