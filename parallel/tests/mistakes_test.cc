// SPDX-License-Identifier: Apache-2.0
// The proof, proven: each mistake that such a library may make is caught by what the proof
// compares: losses, gradients of the first step, and the number of operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "parallel/layout.h"
#include "parallel/store.h"
#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

constexpr int64_t kSteps = 4;

struct Mistake {
  const char* name;
  const char* mesh;
  void (*adjust)(Settings&);
  void (*make)(Options&);
};

void at_each_reduction(Options& options,
                       void (*reduce)(size_t unit, const std::function<void()>& usual)) {
  options.prepare = [reduce](Engine& engine) { engine.store(0).intercept = reduce; };
}

void replace_load(Options& options,
                  void (*load)(Engine&, const Schedule::Run&, Stage&, size_t, int64_t)) {
  options.before_run = [load](Engine& engine, Schedule::Run& run) {
    run.load = [&engine, usual = run, load](Stage& stage, size_t slot, int64_t micro_batch) {
      load(engine, usual, stage, slot, micro_batch);
    };
  };
}

// Sets one parameter of this rank to |change| of its initial whole tensor.
void change_value(Engine& engine, const std::string& name,
                  const std::function<void(std::vector<float>&)>& change) {
  engine.set_values([&](const Parameter& parameter) {
    std::vector<float> whole = initial_values(parameter, engine.settings().seed);
    if (parameter.name == name) change(whole);
    return whole;
  });
}

const auto kPlain = [](Settings&) {};
const auto kTwoMicroBatches = [](Settings& s) { s.micro_batches = 2; };

const Mistake kMistakes[] = {
    {"BucketSummedTwice", "dp=2", [](Settings& s) { s.bucket_bytes = 20000; },
     [](Options& o) {
       at_each_reduction(o, [](size_t, const std::function<void()>& usual) {
         usual();
         usual();
       });
     }},
    {"BucketNotSummed", "dp=2", [](Settings& s) { s.bucket_bytes = 20000; },
     [](Options& o) {
       at_each_reduction(o, [](size_t unit, const std::function<void()>& usual) {
         if (unit != 0) usual();
       });
     }},
    {"ShardSummedTwice", "dp=2", [](Settings& s) { s.sharding = 1; },
     [](Options& o) {
       at_each_reduction(o, [](size_t unit, const std::function<void()>& usual) {
         usual();
         if (unit == 3) usual();
       });
     }},
    {"GradientNotScaled", "dp=2", kPlain,
     [](Options& o) { o.before_run = [](Engine&, Schedule::Run& run) { run.scale *= 2; }; }},
    {"UnevenSharesWeighedEqually", "dp=2",
     [](Settings& s) {
       s.shares = {6, 2};
     },
     [](Options& o) {
       o.before_run = [](Engine& engine, Schedule::Run& run) {
         run.scale *= engine.mesh().rank() == 0 ? 4.0 / 6 : 4.0 / 2;
       };
     }},
    {"StaleWeightsOfAStage", "pp=2", kTwoMicroBatches,
     [](Options& o) {
       o.before_step = [](Engine& engine, int64_t step) {
         if (step != 2 || engine.mesh().rank() != 1) return;
         engine.set_values([&](const Parameter& parameter) {
           return initial_values(parameter, engine.settings().seed);
         });
       };
     }},
    {"SwappedShards", "tp=2", kPlain,
     [](Options& o) {
       o.prepare = [](Engine& engine) {
         change_value(engine, "layers.1.value.weight", [](std::vector<float>& whole) {
           std::rotate(whole.begin(), whole.begin() + static_cast<long>(whole.size() / 2),
                       whole.end());
         });
       };
     }},
    {"DroppedMicroBatch", "dp=2", kTwoMicroBatches,
     [](Options& o) {
       replace_load(o, [](Engine&, const Schedule::Run& usual, Stage& stage, size_t slot, int64_t) {
         usual.load(stage, slot, 0);
       });
     }},
    {"AnotherRanksSequences", "dp=2", kPlain,
     [](Options& o) {
       replace_load(
           o, [](Engine& engine, const Schedule::Run&, Stage& stage, size_t slot, int64_t) {
             const Batch batch = batch_of(engine.settings(), engine.steps());
             const std::span<const int32_t> tokens = batch.tokens, labels = batch.labels;
             stage.set_batch(slot, tokens.first(tokens.size() / 2), labels.first(labels.size() / 2),
                             static_cast<uint64_t>(engine.steps() * 8));
           });
     }},
    {"DropoutOfAnotherSequence", "dp=2", [](Settings& s) { s.model.dropout = 0.3; },
     [](Options& o) {
       replace_load(
           o, [](Engine& engine, const Schedule::Run&, Stage& stage, size_t slot, int64_t) {
             const Batch batch = batch_of(engine.settings(), engine.steps());
             const std::span<const int32_t> tokens = batch.tokens, labels = batch.labels;
             const size_t half = tokens.size() / 2;
             const size_t first = engine.mesh().rank() == 0 ? 0 : half;
             stage.set_batch(slot, tokens.subspan(first, half), labels.subspan(first, half),
                             static_cast<uint64_t>(engine.steps() * 8));
           });
     }},
    {"SummedBeforeTheLastMicroBatch", "dp=2",
     [](Settings& s) {
       s.micro_batches = 2;
       s.bucket_bytes = 20000;
     },
     [](Options& o) {
       o.before_run = [](Engine& engine, Schedule::Run& run) {
         engine.store(0).begin_step(1);
         // The early sums must not come late by luck.
         run.load = [&engine, usual = run.load](Stage& stage, size_t slot, int64_t micro_batch) {
           if (micro_batch == 1) engine.mesh().device().synchronize();
           usual(stage, slot, micro_batch);
         };
       };
     }},
    {"GradientsNotCleared", "dp=2", [](Settings& s) { s.sharding = 2; },
     [](Options& o) {
       // The sum of the step before stays in the shard, as if no one had cleared it.
       at_each_reduction(o, [](size_t unit, const std::function<void()>& usual) {
         if (unit % 2 == 0) usual();
       });
     }},
    {"WrongStepOfTheOptimizer", "dp=2", kPlain,
     [](Options& o) {
       o.before_step = [](Engine& engine, int64_t step) {
         if (step == 1) engine.set_steps(40);
       };
     }},
    {"TiedHeadWithOtherValues", "pp=2", kTwoMicroBatches,
     [](Options& o) {
       o.prepare = [](Engine& engine) {
         if (engine.mesh().rank() != 1) return;
         change_value(engine, "tokens.weight", [](std::vector<float>& whole) {
           for (float& value : whole) value *= 1.1F;
         });
       };
     }},
    {"ReplicaWithOtherValues", "dp=2", [](Settings& s) { s.sharding = 1; },
     [](Options& o) {
       o.prepare = [](Engine& engine) {
         if (engine.mesh().rank() != 1) return;
         change_value(engine, "layers.2.up.weight",
                      [](std::vector<float>& whole) { whole[5] += 0.5F; });
       };
     }},
    {"GathersBehindTheCounters", "tp=2", kPlain,
     [](Options& o) {
       o.before_run = [](Engine& engine, Schedule::Run&) {
         const Buffer part(engine.stream(), 64), whole(engine.stream(), 128);
         engine.mesh().axis("tp").all_gather(part.data(), whole.data(), 64, KEEL_UINT8,
                                             engine.stream());
       };
     }},
};

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

// The same training without the mistake passes, so that the mistake is what is caught.
bool passes(const Training& training, const Training& expected) {
  const bool failed = std::any_of(training.failures.begin(), training.failures.end(),
                                  [](const std::string& failure) { return !failure.empty(); });
  if (failed || training.losses.size() != expected.losses.size()) return false;
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    if (!(std::fabs(training.losses[step] - expected.losses[step]) <= 1e-4)) return false;
  }
  std::string name;
  return deviation(training.gradients, expected.gradients, &name) <= 1e-3 &&
         training.calls == training.operations;
}

TEST_P(MistakeTest, IsCaught) {
  if (kSanitized) GTEST_SKIP() << "the release build makes the mistakes";
  const Mistake& mistake = GetParam();
  Settings settings = tiny_settings(Architecture::kGpt2);
  mistake.adjust(settings);
  Options options;
  options.steps = kSteps;
  Settings alone = tiny_settings(Architecture::kGpt2);
  alone.model = settings.model;
  const Training expected = train(alone, options);
  options.mesh = mistake.mesh;
  ASSERT_TRUE(passes(train(settings, options), expected));
  mistake.make(options);
  EXPECT_FALSE(passes(train(settings, options), expected));
}

INSTANTIATE_TEST_SUITE_P(All, MistakeTest, ::testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace keel::parallel::testing
