// SPDX-License-Identifier: Apache-2.0
// Tests the program with --mesh.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "samples/train_gpt/program_test_fixture.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;

using MeshProgramTest = ProgramTest;

// The trainer without a mesh is code of its own, so each proves the other.
TEST_F(MeshProgramTest, TrainsLikeOneDevice) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  const std::string sizes = "--text " + path("text") +
                            " --layers 2 --width 16 --heads 4 --context 16 --batch 8 --steps 10 "
                            "--warmup 2 --clip 0.5 --sample-length 10 --json ";
  const std::string eight = " --devices cpu:0,cpu:1,cpu:2,cpu:3,cpu:4,cpu:5,cpu:6,cpu:7";
  const std::string settings = "KEEL_CPU_DEVICES=8";
  for (const std::string model : {" --model gpt2", " --model llama --kv-heads 2"}) {
    Outcome outcome = run_program(sizes + path("one.json") + model);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    outcome = run_program(
        sizes + path("mesh.json") + model +
            " --mesh pp=2,dp=2,tp=2 --micro-batches 2 --sharding 1 --recompute selective" + eight,
        {}, settings);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("tp: 2 ranks, cpu, 1 MiB all_reduce"), std::string::npos)
        << outcome.output;
    outcome = run_program(sizes + path("processes.json") + model +
                              " --mesh dp=2,tp=2 --sequence-parallel --chunks 2 --sharding 3 "
                              "--devices cpu:0,cpu:1,cpu:2,cpu:3",
                          "keel run -n 4 --", settings);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::vector<double> expected = losses_of("one.json");
    ASSERT_EQ(expected.size(), 10U);
    for (const char* run : {"mesh.json", "processes.json"}) {
      const std::vector<double> losses = losses_of(run);
      ASSERT_EQ(losses.size(), expected.size()) << run;
      EXPECT_NEAR(held_out_of(run), held_out_of("one.json"), 1e-3) << run;
      for (size_t step = 0; step < losses.size(); ++step) {
        EXPECT_NEAR(losses[step], expected[step], 1e-4) << run << " step " << step;
      }
    }
  }
}

// The command of docs/parallel.md for a machine without chips: a process for each of eight emulated
// ones.
TEST_F(MeshProgramTest, EightProcessesOnEmulatedChipsTrainLikeOneDevice) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  const std::string sizes = "--text " + path("text") +
                            " --layers 2 --width 16 --heads 4 --context 16 --batch 8 --steps 3 "
                            "--warmup 2 --sample-length 10 --json ";
  Outcome outcome = run_program(sizes + path("one.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::vector<double> expected = losses_of("one.json");
  ASSERT_EQ(expected.size(), 3U);
  const std::string mesh = " --mesh pp=2,tp=2,dp=2 --micro-batches 2 --schedule 1f1b --devices ";
  for (const char* const devices :
       {"sim:0,sim:1,sim:2,sim:3,sim:4,sim:5,sim:6,sim:7", "cpu:0,sim:0,cpu:1,sim:1"}) {
    outcome = run_program(sizes + path("eight.json") + mesh + devices, "keel run -n 8 --",
                          "KEEL_CPU_DEVICES=2 KEEL_SIM_DEVICES=8");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::vector<double> losses = losses_of("eight.json");
    ASSERT_EQ(losses.size(), expected.size()) << devices;
    for (size_t step = 0; step < losses.size(); ++step) {
      EXPECT_NEAR(losses[step], expected[step], 1e-4) << devices << " step " << step;
    }
  }
}

TEST_F(MeshProgramTest, ReportsWhereTheTimeOfAStepWent) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  const std::string four = " --devices cpu:0,cpu:1,cpu:2,cpu:3";
  for (const char* const launcher : {"", "keel run -n 4 --"}) {
    const Outcome outcome = run_program(
        "--text " + path("text") +
            " --layers 2 --width 16 --heads 4 --context 16 --batch 8 --steps 3 --sample-length 10 "
            "--mesh pp=2,dp=2 --micro-batches 2 --schedule zero-bubble --recompute full "
            "--timeline " +
            path("step.svg") + " --json " + path("run.json") + four,
        launcher, "KEEL_CPU_DEVICES=4");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_NE(outcome.output.find("optimizer loader communication bubble imbalance    MFU"),
              std::string::npos)
        << outcome.output;
    EXPECT_NE(contents("step.svg").find("step 3: pp=2,dp=2, zero-bubble, 2 micro-batches"),
              std::string::npos);
    const nlohmann::json run = nlohmann::json::parse(contents("run.json"), nullptr, false);
    ASSERT_TRUE(run.is_object() && run.contains("step")) << outcome.output;
    const nlohmann::json& step = run["step"];
    ASSERT_EQ(step["ranks"].size(), 4U);
    EXPECT_GT(step["mfu"].get<double>(), 0);
    for (const nlohmann::json& rank : step["ranks"]) {
      double sum = 0;
      for (const char* const share : {"compute", "recompute", "optimizer", "loader",
                                      "communication", "bubble", "imbalance"}) {
        sum += rank[share].get<double>();
      }
      EXPECT_NEAR(sum, 1, 1e-6);
      EXPECT_GT(rank["mfu"].get<double>(), 0);
      EXPECT_GT(rank["recompute"].get<double>(), 0);
      EXPECT_GT(rank["optimizer"].get<double>(), 0);
    }
  }
}

// Whatever the speeds are that it measures.
TEST_F(MeshProgramTest, MeasuredSharesTrainLikeEqualOnes) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  const std::string steps = quick("--steps 6 --json ");
  Outcome outcome = run_program(steps + path("one.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  outcome = run_program(
      steps + path("mesh.json") + " --mesh dp=2 --balance-every 2 --devices cpu:0,sim:0", {},
      "KEEL_SIM_DEVICES=1");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const std::vector<double> expected = losses_of("one.json"), losses = losses_of("mesh.json");
  ASSERT_EQ(expected.size(), 6U);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t step = 0; step < losses.size(); ++step) {
    EXPECT_NEAR(losses[step], expected[step], 1e-4) << step;
  }
}

TEST_F(MeshProgramTest, RefusesWhatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {"--mesh dp=3 --devices cpu,cpu", "has 3 ranks for 2"},
      {"--mesh dp=two --devices cpu", "axis dp has no size"},
      {"--mesh tp=3 --devices cpu,cpu,cpu", "heads 2 cannot be divided"},
      {"--mesh dp=1 --dump x", "--dump: not with --mesh"},
      {"--mesh dp=1 --export x", "--export: takes --checkpoint"},
      {"--mesh dp=1 --vocabulary 300", "--vocabulary: takes --tokens"},
      {"--tokens x", "--tokens: takes --mesh"},
      {"--mesh dp=1 --checkpoint x --resume", "--checkpoint x"},
      {"--timeline x", "--timeline: takes --mesh"},
      {"--sharding 1", "--sharding: takes --mesh"}};
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = run_program(quick(std::string("--steps 1 ") + arguments));
    EXPECT_GT(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
}

// Stops on one mesh and goes on with another one, and after that as weights of one device.
TEST_F(MeshProgramTest, KeepsCheckpointsThatAnyMeshGoesOnFrom) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  const std::string settings = "KEEL_CPU_DEVICES=4";
  const std::string four = " --devices cpu:0,cpu:1,cpu:2,cpu:3";
  for (const std::string model : {" --model gpt2", " --model llama"}) {
    SCOPED_TRACE(model);
    const std::string sizes = "--text " + path("text") +
                              " --layers 2 --width 16 --heads 2 --context 16 --batch 4 --warmup 2 "
                              "--sample-length 10" +
                              model + " --json ";
    std::vector<double> want, got;
    const auto run = [&](const std::string& arguments, std::vector<double>* losses,
                         const std::string& launcher) {
      const Outcome outcome = run_program(sizes + path("run.json") + arguments, launcher, settings);
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
      const std::vector<double> more = losses_of("run.json");
      losses->insert(losses->end(), more.begin(), more.end());
    };
    const std::string file = " --checkpoint " + path("one.safetensors");
    const std::string folder = " --checkpoint " + path("sets");
    run(" --steps 4" + file, &want, {});
    run(" --steps 8 --resume" + file, &want, {});
    run(" --steps 4 --checkpoint-every 2 --mesh dp=2,tp=2 --sharding 1" + four + folder, &got, {});
    run(" --steps 8 --resume --mesh pp=2,dp=2 --schedule 1f1b --micro-batches 2 --export " +
            path("out") + four + folder,
        &got, "keel run -n 4 --");
    ASSERT_EQ(want.size(), 8U);
    ASSERT_EQ(got.size(), want.size());
    for (size_t step = 0; step < want.size(); ++step) {
      EXPECT_NEAR(got[step], want[step], 1e-4) << step;
    }
    // The weights of the sets go to a training that begins with them.
    const Outcome outcome = run_program(sizes + path("more.json") + " --steps 1 --mesh dp=1" +
                                        " --import " + path("out") + "/model.safetensors");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::vector<double> imported = losses_of("more.json");
    ASSERT_EQ(imported.size(), 1U);
    EXPECT_LT(imported[0], want[0]);
    fs::remove_all(path("sets"));
    fs::remove_all(path("out"));
    fs::remove(path("one.safetensors"));
  }
}

TEST_F(MeshProgramTest, ReadsTokenFilesByShares) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  std::ofstream file(folder_ / "tokens", std::ios::binary);
  for (int i = 0; i < 4000; ++i) {
    const int token = i * i % 293;
    file.put(static_cast<char>(token & 0xff)).put(static_cast<char>(token >> 8));
  }
  file.close();
  const auto arguments = [&](const std::string& vocabulary, const std::string& more) {
    return "--layers 2 --width 16 --heads 2 --context 16 --batch 4 --tokens " + path("tokens") +
           " --vocabulary " + vocabulary + " --checkpoint " + path("sets") + " --json " +
           path("run.json") + more;
  };
  const auto losses = [&](const std::string& more) {
    const Outcome outcome = run_program(arguments("293", more), {}, "KEEL_CPU_DEVICES=4");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const nlohmann::json run = nlohmann::json::parse(contents("run.json"), nullptr, false);
    return run.value("losses_nats_per_token", std::vector<double>());
  };
  // In mid-epoch, on meshes whose ranks read other shares.
  const std::vector<double> first = losses(" --steps 3 --mesh dp=2 --devices cpu:0,cpu:1");
  EXPECT_EQ(first.size(), 3U);
  fs::copy(path("sets"), path("kept"), fs::copy_options::recursive);
  const std::vector<double> alone = losses(" --steps 6 --resume --mesh dp=1");
  fs::remove_all(path("sets"));
  fs::rename(path("kept"), path("sets"));
  const std::vector<double> divided = losses(
      " --steps 6 --resume --mesh dp=2,tp=2 --micro-batches 2 --devices cpu:0,cpu:1,cpu:2,cpu:3");
  ASSERT_EQ(alone.size(), 3U);
  ASSERT_EQ(divided.size(), alone.size());
  for (size_t step = 0; step < alone.size(); ++step) {
    EXPECT_NEAR(divided[step], alone[step], 1e-4) << step;
  }
  fs::remove_all(path("sets"));
  const Outcome outcome = run_program(arguments("100", " --steps 3 --mesh dp=1"));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.output.find("above --vocabulary 100"), std::string::npos) << outcome.output;
}

TEST_F(MeshProgramTest, TrainsInBfloat16) {
  if (is_variant()) GTEST_SKIP() << "nothing here depends on guarded memory or validation";
  std::vector<std::vector<double>> losses;
  for (const std::string more :
       {"", " --precision bf16", " --precision bf16 --mesh dp=2 --devices cpu,cpu"}) {
    const Outcome outcome = run_program(quick("--steps 5 --json " + path("run.json") + more));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    losses.push_back(losses_of("run.json"));
    ASSERT_EQ(losses.back().size(), 5U);
  }
  EXPECT_NE(losses[2], losses[0]);
  for (size_t step = 0; step < losses[0].size(); ++step) {
    EXPECT_NEAR(losses[2][step], losses[1][step], 2e-3) << step;
  }
}

}  // namespace
}  // namespace train_gpt
