// SPDX-License-Identifier: Apache-2.0
// Each strategy: the same bits where the order of sums is the same, the bytes and the memory of its
// formula, and bad input.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "parallel/store.h"
#include "parallel/tests/formulas.h"
#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

void expect_same_bits(const Training& a, const Training& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_TRUE(same_bits(a.gradients, b.gradients));
  EXPECT_TRUE(same_bits(a.values, b.values));
}

// ---- bits

TEST(ShardingTest, EveryLevelGivesTheBitsOfDataParallelism) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    Settings settings = tiny_settings(architecture);
    const Training plain = train_on("dp=2", settings);
    for (settings.sharding = 1; settings.sharding <= 3; ++settings.sharding) {
      SCOPED_TRACE(settings.sharding);
      expect_same_bits(train_on("dp=2", settings), plain);
    }
  }
}

TEST(RecomputeTest, GivesTheBitsOfNoRecomputation) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    Settings settings = tiny_settings(architecture);
    settings.model.dropout = 0.2;
    settings.sequence_parallel = true;
    const Training plain = train_on("tp=2", settings);
    settings.recompute = {Recompute::kSelective};
    expect_same_bits(train_on("tp=2", settings), plain);
    settings.recompute = {Recompute::kFull};
    expect_same_bits(train_on("tp=2", settings), plain);
    settings.recompute = {Recompute::kFull, Recompute::kNone, Recompute::kSelective,
                          Recompute::kFull};
    expect_same_bits(train_on("tp=2", settings), plain);
  }
}

TEST(PipelineTest, GivesTheBitsOfAccumulation) {
  Settings settings = tiny_settings(kLlama);
  settings.micro_batches = 4;
  expect_same_bits(train_on("pp=2", settings), train_on("dp=1", settings));
}

// ---- bfloat16

Settings rounded_settings(Architecture architecture) {
  Settings settings = tiny_settings(architecture);
  settings.precision = Precision::kBFloat16;
  return settings;
}

TEST(PrecisionTest, Bfloat16ProductsTrainAlikeAndAreNotFloat32) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    const Training exact = train_on("dp=1", tiny_settings(architecture), 6);
    Settings settings = rounded_settings(architecture);
    const Training alone = train_on("dp=1", settings, 6);
    settings.sequence_parallel = true;
    settings.chunks = 2;
    settings.micro_batches = 2;
    const Training mesh = train_on("pp=2,tp=2", settings, 6);
    ASSERT_EQ(alone.losses.size(), exact.losses.size());
    ASSERT_EQ(mesh.losses.size(), exact.losses.size());
    for (size_t step = 0; step < exact.losses.size(); ++step) {
      EXPECT_NEAR(alone.losses[step], exact.losses[step], 0.02) << step;
      EXPECT_NEAR(mesh.losses[step], alone.losses[step], 0.01) << step;
    }
    EXPECT_FALSE(same_bits(alone.gradients, exact.gradients));
    std::string name;
    EXPECT_LE(deviation(alone.gradients, exact.gradients, &name), 0.2) << name;
    EXPECT_GE(deviation(alone.gradients, exact.gradients, &name), 1e-4) << name;
  }
}

TEST(PrecisionTest, ShardingAndRecomputationKeepTheBitsOfBfloat16) {
  Settings settings = rounded_settings(kGpt2);
  const Training plain = train_on("dp=2", settings);
  for (settings.sharding = 1; settings.sharding <= 3; ++settings.sharding) {
    SCOPED_TRACE(settings.sharding);
    expect_same_bits(train_on("dp=2", settings), plain);
  }
  settings.sharding = 3;
  settings.recompute = {Recompute::kFull};
  expect_same_bits(train_on("dp=2", settings), plain);
}

// ---- shares of a batch

TEST(ShareTest, RanksThatReadTheirSharesTrainAsWithTheWholeBatch) {
  for (const int64_t micro_batches : {1, 2}) {
    Settings settings = tiny_settings(kLlama);
    settings.micro_batches = micro_batches;
    settings.model.dropout = 0.2;
    if (micro_batches == 2) settings.shares = {3, 1};
    Options options;
    options.mesh = "dp=2,tp=2";
    options.steps = 3;
    const Training whole = train(settings, options);
    options.by_share = true;
    const Training shares = train(settings, options);
    EXPECT_EQ(shares.failures, std::vector<std::string>(4));
    ASSERT_EQ(shares.losses.size(), whole.losses.size());
    for (size_t step = 0; step < whole.losses.size(); ++step) {
      EXPECT_NEAR(shares.losses[step], whole.losses[step], 1e-4) << step;
    }
    if (micro_batches == 1) expect_same_bits(shares, whole);
  }
}

// ---- bytes and memory

TEST_F(FormulaTest, DataParallelismSendsAndKeepsWhatItsLevelSays) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    for (int64_t level = 0; level <= 3; ++level) {
      SCOPED_TRACE(level);
      Settings settings = larger_settings(architecture);
      settings.sharding = level;
      settings.micro_batches = 2;
      const double ranks = 4, passes = level >= 2 ? 2 : 1;
      const double bytes = 4 * Sizes(settings, 0).parameters(settings);
      const double part = (ranks - 1) / ranks * bytes;
      const Training training = train_on("dp=4", settings, 1);
      for (size_t rank = 0; rank < 4; ++rank) {
        const Traffic& sent = training.traffic[rank].at("dp");
        const double kept[] = {4 * bytes, 2 * bytes + 2 * bytes / ranks, bytes + 3 * bytes / ranks,
                               4 * bytes / ranks};
        expect_within(static_cast<double>(training.in_use[rank]), kept[level]);
        if (level == 0) {
          expect_within(sent.total(), 2 * part);
        } else {
          expect_within(sent.reduce_scatter, passes * part);
          // Level 3: forward all, backward all but the embedding's tables. GPT-2's head is a table.
          const Sizes size(settings, 0);
          const double table = size.v * size.w;
          const double floats = size.parameters(settings) +
                                (settings.model.is_llama() ? 0 : table) +
                                size.layers * (size.matrices + size.vectors) + table + size.w;
          expect_within(sent.all_gather, level == 3 ? 2 * 4 * floats * (ranks - 1) / ranks : part);
        }
      }
    }
  }
}

TEST_F(FormulaTest, TensorParallelismSendsTwoRowsOfActivationsALayerAndPass) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    for (const bool sequence : {false, true}) {
      for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        SCOPED_TRACE(sequence);
        Settings settings = larger_settings(architecture);
        settings.sequence_parallel = sequence;
        settings.recompute = {recompute};
        settings.chunks = 2;
        const double ranks = 4, micro_batch = 8 * 32;
        const Sizes size(settings, micro_batch);
        // (n-1)/n of all rows: what one all_gather or reduce_scatter sends; an all_reduce is two.
        const double rows = 4 * size.n * size.w * (ranks - 1) / ranks;
        const double again = recompute == Recompute::kFull ? (sequence ? 3 : 2) : 0;
        // Layers: a pair for each of two blocks, forward and backward; embedding; head's input.
        double expected = rows * ((8 + again) * size.layers + 4);
        // The loss of each token takes an all_gather of a float of each rank and an all_reduce of
        // one.
        expected += 4 * size.n * ((ranks - 1) + 2 * (ranks - 1) / ranks);
        const Training training = train_on("tp=4", settings, 1);
        for (size_t rank = 0; rank < 4; ++rank) {
          expect_within(training.traffic[rank].at("tp").total(), expected);
          // No other operation was run behind the counters' back.
          EXPECT_EQ(training.calls[rank], training.operations[rank]);
        }
      }
    }
  }
}

TEST_F(FormulaTest, PipelineSendsTheBoundaries) {
  Settings settings = larger_settings(kLlama);
  settings.micro_batches = 4;
  const Sizes size(settings, 2 * 32);
  const Training training = train_on("pp=4", settings, 1);
  for (size_t rank = 0; rank < 4; ++rank) {
    const double boundaries = rank == 0 || rank == 3 ? 1 : 2;
    expect_within(training.traffic[rank].at("pp").total(), boundaries * 4 * 4 * size.n * size.w);
  }
}

TEST_F(FormulaTest, ActivationsOfAStep) {
  for (const Architecture architecture : {kGpt2, kLlama}) {
    for (const bool divided : {false, true}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(recompute)) + (divided ? " divided" : ""));
        Settings settings = larger_settings(architecture);
        settings.recompute = {recompute};
        settings.sequence_parallel = divided;
        settings.model.layers = 6;
        const Sizes s(settings, 8 * 32);
        const LayerMemory layer(settings, s, divided ? 2 : 1);
        // The peak is in the backward pass of the last layer.
        const double expected = 4 * (s.layers * layer.kept + layer.backward());
        const Training training = train_on(divided ? "tp=2" : "dp=1", settings, 2);
        for (size_t rank = 0; rank < training.peak.size(); ++rank) {
          expect_within(static_cast<double>(training.peak[rank] - training.in_use[rank]), expected);
        }
      }
    }
  }
}

TEST_F(FormulaTest, DeviceHoldsWhatTheEngineCounts) {
  start_keel();
  const std::vector<Device> devices = devices_of("cpu", 1);
  Settings settings = larger_settings(kGpt2);
  const std::vector<std::string> failures = run_ranks(devices, "dp=1", [&](Mesh& mesh) {
    const uint64_t before = mesh.device().memory_stats().requested;
    Engine engine(mesh, settings);
    engine.stream().synchronize();
    expect_within(static_cast<double>(mesh.device().memory_stats().requested - before),
                  static_cast<double>(engine.bytes_in_use()));
  });
  EXPECT_EQ(failures, std::vector<std::string>(1));
}

// ---- bad input

// Every rank's message contains |part|.
void expect_refused(const std::string& mesh, const Settings& settings, const std::string& part,
                    const std::function<void(Settings&, int64_t rank)>& adjust = {}) {
  Options options;
  options.mesh = mesh;
  options.steps = 1;
  options.adjust = adjust;
  const Training training = train(settings, options);
  for (const std::string& failure : training.failures) {
    EXPECT_NE(failure.find(part), std::string::npos) << failure;
  }
}

TEST(BadInputTest, MeshThatDoesNotMultiplyToTheWorld) {
  start_keel();
  for (const std::string& failure : run_ranks(devices_of("cpu", 3), "dp=2,tp=2", [](Mesh&) {})) {
    EXPECT_NE(failure.find("mesh dp=2,tp=2 has 4 ranks, the job has 3"), std::string::npos)
        << failure;
  }
}

TEST(BadInputTest, WhatAxesCannotDivideIsNamed) {
  Settings settings = tiny_settings(kLlama);
  settings.model.kv_heads = 2;
  expect_refused("tp=4", settings, "kv_heads 2 cannot be divided by the 4 ranks of axis tp");
  settings = tiny_settings(kGpt2);
  settings.model.heads = settings.model.kv_heads = 2;
  expect_refused("tp=3", settings, "heads 2 cannot be divided by the 3 ranks of axis tp");
  settings = tiny_settings(kGpt2);
  settings.model.mlp_width = 1;
  expect_refused("tp=2", settings, "mlp_width 1 cannot be divided");
  settings = tiny_settings(kGpt2);
  settings.model.layers = 3;
  expect_refused("pp=4", settings, "3 layers for 4 stages");
  settings.stage_layers = {1, 1};
  expect_refused("pp=2", settings, "stage_layers must be 2 numbers with the sum 3");
  settings = tiny_settings(kGpt2);
  expect_refused("dp=3", settings, "batch 8 cannot be divided by 3 ranks of axis dp");
  settings.shares = {8, 1};
  expect_refused("dp=2", settings, "shares must be 2 numbers");
  settings = tiny_settings(kGpt2);
  expect_refused("ep=2", settings, "mesh axis ep: no strategy has that name");
}

TEST(BadInputTest, RankWithAnotherConfigOrSeedIsNamed) {
  const Settings settings = tiny_settings(kGpt2);
  expect_refused("dp=3,tp=1", settings, "config of rank 2 (cpu:2) differs",
                 [](Settings& own, int64_t rank) { own.model.width = rank == 2 ? 64 : 32; });
  expect_refused("tp=4", settings, "seed of rank 1 (cpu:1) differs",
                 [](Settings& own, int64_t rank) { own.seed = rank == 1 ? 7 : 1; });
}

TEST(BadInputTest, GradientThatIsNotFiniteNamesRankLayerAndStep) {
  for (const int64_t level : {0, 2}) {
    Settings settings = tiny_settings(kGpt2);
    settings.micro_batches = 2;
    settings.sharding = level;
    Options options;
    options.mesh = "dp=4";
    options.steps = 3;
    Tensors before;
    options.before_run = [](Engine& engine, Schedule::Run& run) {
      if (engine.steps() != 1 || engine.mesh().rank() != 2) return;
      run.load = [&engine, load = run.load](Stage& stage, size_t slot, int64_t micro_batch) {
        load(stage, slot, micro_batch);
        if (micro_batch != 1) return;
        for (size_t i = 0; i < stage.parameters().size(); ++i) {
          if (stage.parameters()[i].name != "layers.2.mlp_norm.weight") continue;
          Store& store = engine.store(0);
          store.acquire_gradients(stage.parameters()[i].unit);
          const float value = std::numeric_limits<float>::quiet_NaN();
          keel::check(keel_fill(engine.stream().get(), store.gradient(i).data, &value,
                                sizeof(value), sizeof(value)));
        }
      };
    };
    const Training training = train(settings, options);
    for (const std::string& failure : training.failures) {
      EXPECT_NE(failure.find("step 2: a gradient is not finite; rank 2 (cpu:2): layers.2"),
                std::string::npos)
          << failure;
    }
  }
}

TEST(BadInputTest, StageOutOfMemoryNamesRankAndTensors) {
  // 12 MiB of weights a layer, four times with gradients and moments; the chip has 96 MiB.
  Settings settings = tiny_settings(kLlama);
  settings.model.width = 512;
  settings.model.mlp_width = 1344;
  settings.stage_layers = {1, 3};
  Options options;
  options.mesh = "pp=2";
  options.backends = "cpu+sim";
  options.steps = 1;
  const Training training = train(settings, options);
  EXPECT_NE(training.failures[0].find("rank 1 (sim:0) could not allocate its stages"),
            std::string::npos)
      << training.failures[0];
  for (const char* part :
       {"rank 1 (sim:0): no memory for ", "; this rank holds values ", ", moments "}) {
    EXPECT_NE(training.failures[1].find(part), std::string::npos) << training.failures[1];
  }
}

TEST(BadInputTest, ActivationsOutOfMemoryAreNamed) {
  Settings settings = tiny_settings(kGpt2);
  settings.batch = 4096;  // 4 MiB for each [tokens, width]
  Options options;
  options.backends = "sim";
  options.steps = 1;
  const Training training = train(settings, options);
  for (const char* part : {"no memory for activations [", "MiB; this rank holds values "}) {
    EXPECT_NE(training.failures[0].find(part), std::string::npos) << training.failures[0];
  }
}

TEST(MeshShapeTest, ReadsAndWritesText) {
  const MeshShape shape = MeshShape::parse("pp=2,dp=1,tp=3@5,4,3,2,1,0");
  EXPECT_EQ(shape.text(), "pp=2,dp=1,tp=3@5,4,3,2,1,0");
  EXPECT_EQ(shape.json(), R"({"axes":{"pp":2,"dp":1,"tp":3},"ranks":[5,4,3,2,1,0]})");
  EXPECT_EQ(shape.coordinate(5, "pp"), 0);
  EXPECT_EQ(shape.coordinate(4, "tp"), 1);
  EXPECT_EQ(shape.neighbour(5, "pp", 1), 2);
  EXPECT_EQ(MeshShape::parse("dp=2@0,1").text(), "dp=2");
  const std::pair<const char*, const char*> wrong[] = {{"", "is no axis"},
                                                       {"dp", "is no axis"},
                                                       {"dp=0", "no size"},
                                                       {"dp=2x", "no size"},
                                                       {"DP=2", "is no axis"},
                                                       {"dp=2,dp=2", "comes twice"},
                                                       {"dp=2@0", "1 ranks behind"},
                                                       {"dp=2@0,0", "comes twice"},
                                                       {"dp=2@0,2", "is not in 0 to 1"},
                                                       {"a=1048576,b=2", "more than"}};
  for (const auto& [text, part] : wrong) {
    try {
      MeshShape::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(MeshTest, SaysWhatTwoMakesCost) {
  start_keel();
  const auto failures = run_ranks(devices_of("cpu+sim", 4), "dp=2,tp=2", [](Mesh& mesh) {
    const std::string text = Mesh::text(mesh.measure(), mesh.shape());
    EXPECT_NE(text.find("tp: 2 ranks, cpu + sim (mixed: through the host), 1 MiB all_reduce"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("dp: 2 ranks, cpu + sim"), std::string::npos) << text;
  });
  EXPECT_EQ(failures, std::vector<std::string>(4));
}

TEST(SharesTest, FollowSpeeds) {
  EXPECT_EQ(shares_by_speed(8, {3, 1}), (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(shares_by_speed(4, {1000, 1}), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(shares_by_speed(7, {1, 1, 1}).size(), 3U);
  EXPECT_THROW(shares_by_speed(1, {1, 1}), Error);
  EXPECT_THROW(shares_by_speed(4, {0, 0}), Error);
}

}  // namespace
}  // namespace keel::parallel::testing
