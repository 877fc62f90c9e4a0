// SPDX-License-Identifier: Apache-2.0
// Overlaps data-parallel backward passes with the summation of their gradients.
//
//   overlap [BACKEND [RANKS]]            default: cpu and 2
//   KEEL_TRACE=overlap.json overlap      also writes a timeline for ui.perfetto.dev
//
// Each rank has three streams. The first computes, layer by layer from the last to the first. The
// second averages the gradients over the ranks, one bucket of layers at a time, each as soon as the
// bucket is computed. The third checks whether any gradient overflowed: its result is a few bytes
// for which the next step waits, so it travels on an urgent communicator and overtakes the buckets.
// Timing events of the devices show how much of the communication was hidden.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <keel/keel.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kLayers = 8;
constexpr int kLayersOfBucket = 2;
constexpr int kBuckets = kLayers / kLayersOfBucket;
constexpr int64_t kWidth = 512;  // each layer has kWidth x kWidth weights
constexpr int64_t kBatch = 256;  // rows per rank
constexpr uint64_t kWeights = kWidth * kWidth;
constexpr int kSteps = 4;  // the first step warms up

// With these inputs every gradient has a known value: kBatch * kInput * (rank + 1) * kError.
constexpr float kInput = 0.5f;
constexpr float kError = 1.0f / 1024;

double milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) * 1e-6;
}

// Times of one rank's device in one step.
struct Times {
  double compute = 0;        // ms from the first to the last matmul
  double communication = 0;  // summed over the buckets
  double hidden = 0;         // part of it during the device's computation
  double whole = 0;          // ms to the end of the last bucket
  double answer = 0;         // ms to the answer on the urgent communicator
};

class Rank {
 public:
  Rank(keel::Device device, keel::Communicator gradients, keel::Communicator urgent)
      : gradients_(std::move(gradients)),
        urgent_(std::move(urgent)),
        compute_(device),
        communicate_(device),
        answer_(device, /*priority=*/-1),
        weights_(keel::Buffer::of<float>(device, kWeights)),
        inputs_(keel::Buffer::of<float>(device, kBatch * kWidth)),
        overflow_(keel::Buffer::of<float>(device, 1)) {
    for (int i = 0; i < 2; ++i) errors_.push_back(keel::Buffer::of<float>(device, kBatch * kWidth));
    for (int i = 0; i < kBuckets; ++i) {
      buckets_.push_back(keel::Buffer::of<float>(device, kLayersOfBucket * kWeights));
      ready_.emplace_back(KEEL_EVENT_TIMING);
      begin_.emplace_back(KEEL_EVENT_TIMING);
      end_.emplace_back(KEEL_EVENT_TIMING);
    }
    compute_.fill(weights_, 1.0f / kWidth);
    compute_.fill(inputs_, kInput);
    compute_.synchronize();
  }

  // Enqueues a whole step; does not block.
  void step() {
    compute_.fill(errors_[0], static_cast<float>(gradients_.rank() + 1) * kError);
    compute_.fill(overflow_, 0.0f);
    start_.record(compute_);
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      backward(layer);
      if (layer % kLayersOfBucket == 0) average(layer / kLayersOfBucket);
    }
    computed_.record(compute_);
    // Enqueued after all buckets, but done before the last of them.
    answer_.wait(computed_);
    urgent_.all_reduce(overflow_.data(), overflow_.data(), 1, KEEL_FLOAT32, KEEL_MAX, answer_);
    answered_.record(answer_);
  }

  Times wait() {
    communicate_.synchronize();
    answer_.synchronize();
    Times times;
    times.compute = at(computed_);
    times.whole = at(end_[0]);
    times.answer = at(answered_);
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      const double begin = at(begin_[bucket]);
      const double end = at(end_[bucket]);
      times.communication += end - begin;
      times.hidden += std::max(0.0, std::min(end, times.compute) - begin);
    }
    return times;
  }

  void check(uint32_t world) {
    const float mean = static_cast<float>(world + 1) / 2;
    const float expected = kBatch * kInput * kError * mean;
    std::vector<float> found(kLayersOfBucket * kWeights);
    for (const keel::Buffer& bucket : buckets_) {
      compute_.download(found, bucket);
      compute_.synchronize();
      for (float value : found) {
        if (std::abs(value - expected) > 1e-4f * expected) {
          throw std::runtime_error("a gradient is " + std::to_string(value) + " instead of " +
                                   std::to_string(expected));
        }
      }
    }
  }

 private:
  // Computes the gradient of the layer's weights, and the errors of the previous layer.
  void backward(int layer) {
    const keel::Buffer& error = errors_[layer % 2 == 0 ? 1 : 0];
    const keel::Buffer& previous = errors_[layer % 2 == 0 ? 0 : 1];
    float* const gradient = static_cast<float*>(buckets_[layer / kLayersOfBucket].data()) +
                            static_cast<uint64_t>(layer % kLayersOfBucket) * kWeights;
    keel::ops::matmul(compute_, {.a = inputs_.tensor<float>({kBatch, kWidth}),
                                 .b = error.tensor<float>({kBatch, kWidth}),
                                 .c = keel::make_tensor(gradient, KEEL_FLOAT32, {kWidth, kWidth}),
                                 .trans_a = true});
    keel::ops::matmul(compute_, {.a = error.tensor<float>({kBatch, kWidth}),
                                 .b = weights_.tensor<float>({kWidth, kWidth}),
                                 .c = previous.tensor<float>({kBatch, kWidth}),
                                 .trans_b = true});
  }
  // Averages over the ranks, as soon as the bucket is computed.
  void average(int bucket) {
    void* const data = buckets_[bucket].data();
    ready_[bucket].record(compute_);
    communicate_.wait(ready_[bucket]);
    begin_[bucket].record(communicate_);
    gradients_.all_reduce(data, data, kLayersOfBucket * kWeights, KEEL_FLOAT32, KEEL_AVG,
                          communicate_);
    end_[bucket].record(communicate_);
  }
  double at(const keel::Event& event) const { return milliseconds(event.elapsed_since(start_)); }

  keel::Communicator gradients_;
  keel::Communicator urgent_;
  keel::Stream compute_;
  keel::Stream communicate_;
  keel::Stream answer_;
  keel::Buffer weights_;
  keel::Buffer inputs_;
  keel::Buffer overflow_;
  std::vector<keel::Buffer> errors_;   // of the current layer, and of the previous one
  std::vector<keel::Buffer> buckets_;  // of gradients; the last layers' bucket is ready first
  keel::Event start_{KEEL_EVENT_TIMING};
  keel::Event computed_{KEEL_EVENT_TIMING};
  keel::Event answered_{KEEL_EVENT_TIMING};
  std::vector<keel::Event> ready_;
  std::vector<keel::Event> begin_;
  std::vector<keel::Event> end_;
};

int run(const std::string& backend, uint32_t world) {
  keel::Runtime runtime;
  const std::vector<keel::Device> devices(world, keel::Device::find(backend));
  keel_comm_options urgent = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
  urgent.priority = KEEL_COMM_URGENT;
  std::vector<keel::Communicator> normal_lane = keel::Communicator::all(devices);
  std::vector<keel::Communicator> urgent_lane = keel::Communicator::all(devices, &urgent);
  std::vector<Rank> ranks;
  for (uint32_t rank = 0; rank < world; ++rank) {
    ranks.emplace_back(devices[rank], std::move(normal_lane[rank]), std::move(urgent_lane[rank]));
  }
  std::printf("%u ranks on %s: %d layers of %lld x %lld in %d buckets, %lld rows a rank\n", world,
              devices[0].name().c_str(), kLayers, static_cast<long long>(kWidth),
              static_cast<long long>(kWidth), kBuckets, static_cast<long long>(kBatch));
  std::printf("step  rank    compute  communication     hidden       whole  overflow known\n");
  double hidden = 0;
  double communication = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (Rank& rank : ranks) rank.step();
    for (uint32_t rank = 0; rank < world; ++rank) {
      const Times times = ranks[rank].wait();
      if (step == 0) continue;
      hidden += times.hidden;
      communication += times.communication;
      std::printf("%4d %5u %7.2f ms     %7.2f ms %7.2f ms  %7.2f ms      %7.2f ms\n", step, rank,
                  times.compute, times.communication, times.hidden, times.whole, times.answer);
    }
  }
  for (Rank& rank : ranks) rank.check(world);
  std::printf("%.0f%% of the communication was hidden behind computing\n",
              communication > 0 ? 100 * hidden / communication : 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 2;
  if (argc > 3 || ranks < 1 || ranks > 64) {
    std::fprintf(stderr, "usage: overlap [BACKEND [RANKS]]\n");
    return 2;
  }
  try {
    return run(argc > 1 ? argv[1] : "cpu", static_cast<uint32_t>(ranks));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overlap: %s\n", error.what());
    return 1;
  }
}
