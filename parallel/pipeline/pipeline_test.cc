// SPDX-License-Identifier: Apache-2.0
// Pipelines on several devices against the same model on one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <keel/parallel/pipeline.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "parallel/testing/linear_stage.h"
#include "parallel/testing/thread_ranks.h"

namespace keel::parallel {
namespace {

constexpr int64_t kRows = 6;
constexpr int64_t kWidth = 20;
constexpr int64_t kLayers = 9;
constexpr uint32_t kMicroBatches = 6;

class KeelEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    setenv("KEEL_CPU_DEVICES", "4", 1);
    setenv("KEEL_SIM_DEVICES", "2", 1);
    keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "cpu,sim";
    options.default_timeout_ns = 60'000'000'000;
    runtime_ = std::make_unique<Runtime>(options);
  }
  void TearDown() override { runtime_.reset(); }

 private:
  std::unique_ptr<Runtime> runtime_;
};
const auto* const g_environment = testing::AddGlobalTestEnvironment(new KeelEnvironment);

std::vector<Device> devices(const std::vector<std::string>& names) {
  std::vector<Device> found;
  for (const std::string& name : names) found.push_back(Device::find(name));
  return found;
}

struct Numbers {
  std::vector<int32_t> tokens, labels;
};
Numbers numbers(uint32_t micro_batch) {
  Numbers made;
  for (int32_t i = 0; i < kRows * kWidth; ++i) {
    const auto seed = i + static_cast<int32_t>(micro_batch) * 1000;
    made.tokens.push_back(seed * 37 % 101 - 50);
    made.labels.push_back(seed * 53 % 89 - 44);
  }
  return made;
}

// Enqueues |steps| steps, whose gradients add up.
void run_steps(Pipeline& pipeline, int steps, int* out_losses = nullptr) {
  for (int step = 0; step < steps; ++step) {
    pipeline.step({.load =
                       [&](Stage& stage, size_t slot, uint32_t m) {
                         const Numbers batch = numbers(m);
                         stage.set_batch(slot, batch.tokens, batch.labels, m);
                       },
                   .after_loss =
                       [&](Stage&, size_t, uint32_t) {
                         if (out_losses != nullptr) ++*out_losses;
                       },
                   .scale = 0.25});
  }
}

std::vector<float> on_one_device(const std::string& device, int steps) {
  Stream stream(Device::find(device));
  LinearStage stage(stream, 0, kLayers, kLayers, kRows, kWidth);
  Pipeline pipeline(nullptr, one_f_one_b(1, kMicroBatches), {&stage});
  run_steps(pipeline, steps);
  return stage.gradients();
}

// The gradients of all layers; |division|: layers of each stage.
std::vector<float> in_a_pipeline(const std::vector<std::string>& names,
                                 const PipelineSchedule& schedule,
                                 const std::vector<int64_t>& division, int steps) {
  std::mutex mutex;
  std::map<int64_t, std::vector<float>> parts;
  int losses = 0;
  const std::vector<std::string> failures =
      run_thread_ranks(devices(names), [&](uint32_t rank, Communicator& world, Device device) {
        Stream stream(device);
        std::vector<std::unique_ptr<LinearStage>> stages;
        std::vector<Stage*> chunks;
        int64_t first = 0;
        for (uint32_t stage = 0; stage < schedule.stages(); ++stage) {
          if (schedule.rank_of(stage) == rank) {
            stages.push_back(std::make_unique<LinearStage>(stream, first, division[stage], kLayers,
                                                           kRows, kWidth));
            chunks.push_back(stages.back().get());
          }
          first += division[stage];
        }
        Pipeline pipeline(&world, schedule, chunks);
        run_steps(pipeline, steps, rank + 1 == schedule.ranks ? &losses : nullptr);
        for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
          std::vector<float> gradients = stages[chunk]->gradients();
          EXPECT_LE(stages[chunk]->slots(),
                    Pipeline::slots(schedule, rank, static_cast<uint32_t>(chunk)));
          const std::lock_guard lock(mutex);
          parts[stages[chunk]->first_layer()] = std::move(gradients);
        }
      });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  EXPECT_EQ(losses, steps * static_cast<int>(schedule.micro_batches));
  std::vector<float> all;
  for (const auto& [layer, part] : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Case {
  const char* schedule;
  uint32_t ranks;
  uint32_t chunks;
};
class PipelineTest : public testing::TestWithParam<Case> {};

// Uneven stages: the first have one layer more.
std::vector<int64_t> division(uint32_t stages) {
  return divide_layers(kLayers, std::vector<double>(stages, 1.0));
}

TEST_P(PipelineTest, GradientsAreTheBitsOfOneDevice) {
  const Case& given = GetParam();
  const PipelineSchedule schedule =
      make_schedule(given.schedule, given.ranks, given.chunks, kMicroBatches);
  std::vector<std::string> names;
  for (uint32_t rank = 0; rank < given.ranks; ++rank)
    names.push_back("cpu:" + std::to_string(rank));
  EXPECT_EQ(in_a_pipeline(names, schedule, division(schedule.stages()), /*steps=*/2),
            on_one_device("cpu:0", 2));
}

INSTANTIATE_TEST_SUITE_P(Schedules, PipelineTest,
                         testing::Values(Case{"1f1b", 2, 1}, Case{"1f1b", 3, 1},
                                         Case{"1f1b-apart", 4, 1}, Case{"interleaved", 2, 2},
                                         Case{"interleaved", 3, 3}, Case{"interleaved-apart", 2, 3},
                                         Case{"zero-bubble", 2, 1}, Case{"zero-bubble", 4, 1}),
                         [](const auto& instance) {
                           std::string name = instance.param.schedule +
                                              std::to_string(instance.param.ranks) + "x" +
                                              std::to_string(instance.param.chunks);
                           std::erase(name, '-');
                           return name;
                         });

TEST(PipelineChipsTest, RanksOfTwoMakes) {
  const std::vector<float> expected = on_one_device("cpu:0", 1);
  const std::vector<float> found = in_a_pipeline({"cpu:0", "sim:0", "cpu:1", "sim:1"},
                                                 zero_bubble(4, kMicroBatches), division(4), 1);
  ASSERT_EQ(found.size(), expected.size());
  double worst = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
    largest = std::max(largest, std::abs(double{expected[i]}));
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(worst, 1e-4 * largest);
}

// A stage with an event behind its first forward pass.
class MarkedStage : public LinearStage {
 public:
  using LinearStage::LinearStage;
  void forward(size_t slot) override {
    LinearStage::forward(slot);
    if (!std::exchange(is_marked_, true)) first_.record(stream());
  }
  keel_status first_pass() const { return keel_event_query(first_.get()); }

 private:
  Event first_;
  bool is_marked_ = false;
};

// Six passes, three forward and three backward; the device is busy before the first.
TEST(PipelineHostTest, EnqueuesAFewPassesAhead) {
  Stream stream(Device::find("cpu:0"));
  MarkedStage stage(stream, 0, kLayers, kLayers, kRows, kWidth);
  Pipeline pipeline(nullptr, one_f_one_b(1, kMicroBatches), {&stage});
  const Buffer large(stream, 256 << 20);
  stream.fill(large, 1);
  std::map<uint32_t, keel_status> seen;  // by micro-batch, before its forward pass
  pipeline.step({.load = [&](Stage& loaded, size_t slot, uint32_t m) {
    seen[m] = stage.first_pass();
    const Numbers batch = numbers(m);
    loaded.set_batch(slot, batch.tokens, batch.labels, m);
  }});
  stream.synchronize();
  if (seen[1] == KEEL_OK) GTEST_SKIP() << "the device kept up with its host";
  EXPECT_EQ(seen[3], KEEL_OK);
}

TEST(PipelineErrorsTest, WrongNumbersAreNamed) {
  Stream stream(Device::find("cpu:0"));
  LinearStage whole(stream, 0, 2, 2, kRows, kWidth);
  LinearStage part(stream, 0, 1, 2, kRows, kWidth);
  const auto failure = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_NE(failure([&] {
              Pipeline(nullptr, one_f_one_b(2, 2), {&whole});
            }).find("a schedule of 2 ranks on an axis of 1"),
            std::string::npos);
  EXPECT_NE(failure([&] { Pipeline(nullptr, one_f_one_b(1, 2), {}); }).find("has 0 stages, not 1"),
            std::string::npos);
  EXPECT_NE(failure([&] { Pipeline(nullptr, one_f_one_b(1, 2), {&part}); }).find("stage 0 of 1"),
            std::string::npos);
}

// A stage that has no memory left in its third forward pass.
class FullStage : public LinearStage {
 public:
  using LinearStage::LinearStage;
  void forward(size_t slot) override {
    if (++calls_ == 3) {
      throw Error(KEEL_OUT_OF_MEMORY, "activations of slot " + std::to_string(slot));
    }
    LinearStage::forward(slot);
  }

 private:
  int calls_ = 0;
};

TEST(PipelineErrorsTest, AStageOutOfMemoryIsNamedAndNoRankHangs) {
  const std::vector<std::string> failures = run_thread_ranks(
      devices({"cpu:0", "cpu:1"}), [&](uint32_t rank, Communicator& world, Device device) {
        Stream stream(device);
        std::unique_ptr<LinearStage> stage;
        if (rank == 1) {
          stage = std::make_unique<FullStage>(stream, 4, 5, kLayers, kRows, kWidth);
        } else {
          stage = std::make_unique<LinearStage>(stream, 0, 4, kLayers, kRows, kWidth);
        }
        Pipeline pipeline(&world, one_f_one_b(2, kMicroBatches), {stage.get()});
        run_steps(pipeline, 1);
        stage->gradients();
      });
  EXPECT_NE(failures[1].find("pipeline rank 1, forward of micro-batch 2 in stage 1"),
            std::string::npos)
      << failures[1];
  EXPECT_NE(failures[1].find("activations of slot"), std::string::npos) << failures[1];
  EXPECT_NE(failures[0], "") << "rank 0 did not notice";
}

}  // namespace
}  // namespace keel::parallel
