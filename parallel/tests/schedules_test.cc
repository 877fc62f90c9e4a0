// SPDX-License-Identifier: Apache-2.0
// Each pipeline schedule and each level of ZeRO: the peak of memory, and the number of operations,
// of their formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "parallel/tests/formulas.h"
#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

constexpr int64_t kMicroBatches = 4;

Settings settings_of(Architecture architecture, int64_t layers) {
  Settings settings = larger_settings(architecture);
  settings.model.layers = layers;
  settings.micro_batches = kMicroBatches;
  return settings;
}

Training train_with(const char* schedule, uint32_t ranks, uint32_t chunks,
                    const Settings& settings) {
  Options options;
  options.mesh = "pp=" + std::to_string(ranks);
  options.steps = 2;
  options.schedule = [&] {
    return std::make_shared<PipelinedSchedule>(
        make_schedule(schedule, ranks, chunks, kMicroBatches));
  };
  Training training = train(settings, options);
  for (const std::string& failure : training.failures) EXPECT_EQ(failure, "");
  return training;
}

// ---- memory

struct ScheduleCase {
  const char* schedule;
  uint32_t ranks, chunks;
};
constexpr ScheduleCase kSchedules[] = {{"1f1b", 2, 1},        {"1f1b", 4, 1},
                                       {"1f1b-apart", 2, 1},  {"interleaved", 2, 2},
                                       {"zero-bubble", 2, 1}, {"zero-bubble", 4, 1}};

// Floats of activations on |rank|, of |layers| in each of its stages.
double activations_of(const PipelineSchedule& schedule, uint32_t rank, double layers,
                      const LayerMemory& layer) {
  const double flight = schedule.in_flight[rank];
  const bool has_last_alone = schedule.chunks == 1 && rank + 1 == schedule.ranks;
  const std::vector<Action>& actions = schedule.actions[rank];
  const bool is_apart = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.task == Task::kBackwardData;
  });
  if (!is_apart) {
    // Outputs of all but the micro-batch in its backward pass, and two messages received ahead.
    const double boundaries = has_last_alone ? 1 : flight + 1;
    return flight * layers * layer.kept + layer.backward() + boundaries * layer.boundary;
  }
  // Rank r of the zero-bubble schedule computes the weights' gradients r micro-batches later.
  const double pending = schedule.name == "zero-bubble" ? rank : 0;
  // In the last of the stage's layers, the others are held for the weights' gradients.
  const double current = (layers - 1) * std::max(layer.held, layer.kept) + layer.whole +
                         layer.gradients + (has_last_alone ? layer.head : 0);
  return (flight - 1 - pending) * layers * layer.kept +
         pending * (layers * layer.held + (has_last_alone ? layer.head : 0)) + current +
         flight * layer.boundary;
}

TEST_F(FormulaTest, PeakOfEachScheduleIsThatOfItsMicroBatchesInFlight) {
  constexpr int64_t kLayers = 4;  // of a rank
  for (const Architecture architecture : {kLlama, kGpt2}) {
    for (const ScheduleCase& given : kSchedules) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        Settings settings = settings_of(architecture, kLayers * given.ranks);
        settings.recompute = {recompute};
        const PipelineSchedule schedule =
            make_schedule(given.schedule, given.ranks, given.chunks, kMicroBatches);
        const LayerMemory layer(settings, Sizes(settings, 2 * 32));
        const Training training = train_with(given.schedule, given.ranks, given.chunks, settings);
        for (uint32_t rank = 0; rank < given.ranks; ++rank) {
          SCOPED_TRACE(std::string(given.schedule) + " recompute " +
                       std::to_string(static_cast<int>(recompute)) + " rank " +
                       std::to_string(rank) + " of " + std::to_string(given.ranks));
          expect_within(static_cast<double>(training.peak[rank] - training.in_use[rank]),
                        4 * activations_of(schedule, rank,
                                           static_cast<double>(kLayers) / given.chunks, layer));
        }
      }
    }
  }
}

TEST_F(FormulaTest, PeakOfEachLevelOfZero) {
  for (const Architecture architecture : {kLlama, kGpt2}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      for (int64_t level = 0; level <= 3; ++level) {
        Settings settings = settings_of(architecture, 6);
        settings.micro_batches = 1;
        settings.sharding = level;
        settings.recompute = {recompute};
        const Sizes size(settings, 4 * 32);
        const LayerMemory layer(settings, size);
        const Training training = train_on("dp=2", settings, 2);
        const double parameters = size.matrices + size.vectors;  // of a layer
        // Backwards from the last layer, activations go and gradients come: the layer's own, and
        // from level 2 on those of two layers behind, on their way to their shards.
        double expected = 0;
        for (double behind = 0; behind <= 2; ++behind) {
          expected = std::max(expected, (size.layers - behind) * layer.kept + layer.backward() +
                                            (level >= 2 ? (behind + 1) * parameters : 0));
        }
        // The layer's values, and those of the layer that comes next.
        if (level == 3) expected += 2 * parameters;
        for (size_t rank = 0; rank < 2; ++rank) {
          SCOPED_TRACE("level " + std::to_string(level) + " recompute " +
                       std::to_string(static_cast<int>(recompute)) + " rank " +
                       std::to_string(rank));
          expect_within(static_cast<double>(training.peak[rank] - training.in_use[rank]),
                        4 * expected);
        }
      }
    }
  }
}

// ---- operations

// Messages of |rank|: for each of its stages an input and its gradient, an output and its gradient.
uint64_t messages_of(uint32_t rank, uint32_t ranks, uint32_t chunks) {
  uint64_t boundaries = 0;
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const uint32_t stage = chunk * ranks + rank;
    boundaries += (stage > 0 ? 1 : 0) + (stage + 1 < ranks * chunks ? 1 : 0);
  }
  return 2 * boundaries * kMicroBatches;
}

TEST_F(FormulaTest, OperationsOfEachScheduleAreTwoForABoundaryAndMicroBatch) {
  for (const ScheduleCase& given : kSchedules) {
    SCOPED_TRACE(given.schedule);
    const Training training =
        train_with(given.schedule, given.ranks, given.chunks, settings_of(kLlama, 2 * given.ranks));
    for (uint32_t rank = 0; rank < given.ranks; ++rank) {
      const Operations& counted = training.on_axis[rank].at("pp");
      EXPECT_EQ(counted.engine, 2 * messages_of(rank, given.ranks, given.chunks)) << rank;
      EXPECT_EQ(counted.libkeel, counted.engine) << rank;
    }
  }
  const Training training = train_on("pp=4", settings_of(kLlama, 4), /*steps=*/2);  // fill-drain
  for (uint32_t rank = 0; rank < 4; ++rank) {
    const Operations& counted = training.on_axis[rank].at("pp");
    EXPECT_EQ(counted.engine, 2 * messages_of(rank, 4, 1)) << rank;
    EXPECT_EQ(counted.libkeel, counted.engine) << rank;
  }
}

TEST_F(FormulaTest, OperationsOfEachLevelOfZero) {
  constexpr uint64_t kLayers = 4, kSteps = 2;
  for (const Architecture architecture : {kLlama, kGpt2}) {
    // Llama: table, layers, norm, head; GPT-2: table, positions, layers, norm.
    const uint64_t units = kLayers + 3;
    // GPT-2's table is gathered for the embedding and for the head.
    const uint64_t forward = architecture == kLlama ? units : units + 1;
    const uint64_t backward = kLayers + 2;  // norm, head, layers
    for (int64_t level = 0; level <= 3; ++level) {
      for (const bool is_one_bucket : {true, false}) {
        if (is_one_bucket && level > 0) continue;
        SCOPED_TRACE("level " + std::to_string(level));
        Settings settings = settings_of(architecture, kLayers);
        settings.micro_batches = 2;
        settings.sharding = level;
        if (!is_one_bucket) settings.bucket_bytes = 1;  // each unit is one
        const uint64_t scatters = (level >= 2 ? 2 : 1) * units;
        const uint64_t expected = level == 0   ? (is_one_bucket ? 1 : units)
                                  : level <= 2 ? scatters + units
                                               : scatters + 2 * (forward + backward);
        const Training training = train_on("dp=2", settings, kSteps);
        for (size_t rank = 0; rank < 2; ++rank) {
          const Operations& counted = training.on_axis[rank].at("dp");
          EXPECT_EQ(counted.engine, kSteps * expected) << rank;
          EXPECT_EQ(counted.libkeel, counted.engine) << rank;
        }
      }
    }
  }
}

}  // namespace
}  // namespace keel::parallel::testing
