// SPDX-License-Identifier: Apache-2.0
// Data-parallel training: the same model on every device, each with a share of the batch.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_TRAINER_H_
#define KEEL_SAMPLES_MIXED_TRAINING_TRAINER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/device_clock.h"
#include "samples/mixed_training/model.h"
#include "samples/mixed_training/parameters.h"
#include "samples/mixed_training/work_shares.h"

namespace mixed_training {

struct TrainingSettings {
  int64_t steps = 3000;
  int64_t batch = 1024;  // rows, over all devices
  int64_t hidden = 256;
  double learning_rate = 4e-3;  // the peak
  uint64_t seed = 1;
  int64_t report_every = 100;
};

// One report; vectors have one element per device.
struct Interval {
  int64_t step;
  double seconds;           // since the start
  double loss;              // mean since the last report, bits per byte
  double bytes_per_second;  // of all devices together, wall-clock
  std::vector<int64_t> rows;
  std::vector<double> compute_speeds;  // bytes per second of compute, mean since the start
};

struct ShareChange {
  int64_t step;
  std::vector<int64_t> rows;
};

// The results of a run.
struct TrainingRun {
  std::vector<std::string> devices;
  std::vector<double> losses;  // of each step, nats per byte
  std::vector<Interval> intervals;
  std::vector<ShareChange> shares;
  // Summed over the devices after the first step: one copy per rank, as held by the rank.
  std::vector<std::vector<float>> first_gradients;
  double seconds = 0;
};

// Two trainers with the same settings see the same batches and start from the same parameters, on
// any devices. One thread drives all devices.
class Trainer {
 public:
  // |corpus| must outlive the trainer.
  Trainer(std::span<const keel::Device> devices, const Corpus& corpus,
          const TrainingSettings& settings);

  // Runs |steps| <= settings.steps steps. Throws std::runtime_error when the loss is no longer
  // finite.
  TrainingRun run(int64_t steps, const std::function<void(const Interval&)>& report);

  Model& model(size_t rank) { return workers_[rank]->model; }
  keel_comm_stats stats(uint32_t rank) const { return ranks_.at(rank).stats(); }

 private:
  struct Worker {
    Worker(keel::Device device, const ParameterLayout& layout, int64_t max_rows)
        : model(device, layout, max_rows), clock(device) {}

    Model model;
    DeviceClock clock;
  };

  double step();
  double learning_rate() const;
  void rebalance(TrainingRun& run);
  void broadcast_parameters();
  std::vector<std::vector<float>> gradients();
  void synchronize();

  const Corpus& corpus_;
  TrainingSettings settings_;
  ParameterLayout layout_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<keel::Communicator> ranks_;
  WorkShares shares_;
  keel::Buffer host_loss_;  // pinned, one float
  int64_t step_ = 0;        // steps done
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_TRAINER_H_
