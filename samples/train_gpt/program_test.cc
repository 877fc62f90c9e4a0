// SPDX-License-Identifier: Apache-2.0
// Tests the program.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "samples/train_gpt/program_test_fixture.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;

TEST_F(ProgramTest, TrainsStopsAndGoesOn) {
  const std::string checkpoint = " --model llama --checkpoint " + path("run.safetensors");
  Outcome outcome = run_program(quick("--steps 10 --json " + path("run.json") + " --svg " +
                                      path("run.svg") + " --export " + path("out") + checkpoint));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ifstream file(path("run.json"));
  const nlohmann::json run = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(run.is_object()) << outcome.output;
  EXPECT_EQ(run["losses_nats_per_byte"].size(), 10U);
  EXPECT_EQ(run["intervals"].size(), 2U);
  EXPECT_GT(run["mfu"].get<double>(), 0);
  EXPECT_EQ(run["sample"].get<std::string>().size(), 10U);
  EXPECT_TRUE(fs::exists(path("run.svg")));
  EXPECT_TRUE(fs::exists(path("out/model.safetensors")));

  outcome = run_program(
      quick("--steps 12 --resume --devices cpu:0,cpu:0 --json " + path("more.json") + checkpoint));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::ifstream more_file(path("more.json"));
  const nlohmann::json more = nlohmann::json::parse(more_file, nullptr, false);
  ASSERT_TRUE(more.is_object()) << outcome.output;
  EXPECT_EQ(more["first_step"], 11);
  EXPECT_EQ(more["losses_nats_per_byte"].size(), 2U);

  outcome =
      run_program(quick("--steps 1 --model llama --import " + path("out") + "/model.safetensors"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

// Variables as in a Kubernetes pod.
TEST_F(ProgramTest, StrayVariablesOfALauncherMakeNoRanks) {
  const Outcome outcome =
      run_program(quick("--steps 1"), {}, "RANK=0 WORLD_SIZE=4 MASTER_PORT=29500");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("LOCAL_RANK, LOCAL_WORLD_SIZE are not"), std::string::npos)
      << outcome.output;
}

TEST_F(ProgramTest, KeepsTheCheckpointBeforeWeightsThatAreNotFinite) {
  const std::string arguments = quick("--model llama --checkpoint " + path("run.safetensors"));
  Outcome outcome = run_program(arguments + " --steps 2");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  // Simulates a tool that wrote a NaN into the file.
  std::fstream file(folder_ / "run.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  const std::string nan("\0\0\xc0\x7f", 4);
  file.seekp(-4, std::ios::end);
  file.write(nan.data(), 4);
  file.close();
  const std::string before = contents("run.safetensors");
  outcome = run_program(arguments + " --resume --steps 3");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.output.find("is not finite"), std::string::npos) << outcome.output;
  EXPECT_EQ(contents("run.safetensors"), before);
}

TEST_F(ProgramTest, GoesOnAsItWasTrained) {
  const std::string checkpoint = " --checkpoint " + path("run.safetensors");
  Outcome outcome =
      run_program(quick("--steps 2 --learning-rate 0.02 --precision bf16 --seed 5" + checkpoint));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  outcome =
      run_program(quick("--resume --steps 3 --clip 0.5 --seed 6 --devices cpu:0,cpu:0 --json " +
                        path("run.json") + checkpoint));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("--steps 3, not 2; --clip 0.5, not 1.0; 2 devices, not 1; "
                                "the checkpoint's --seed 5, not 6\n"),
            std::string::npos)
      << outcome.output;
  const nlohmann::json run = nlohmann::json::parse(contents("run.json"), nullptr, false);
  ASSERT_TRUE(run.is_object()) << outcome.output;
  const nlohmann::json& settings = run["settings"];
  EXPECT_EQ(settings["learning_rate"], 0.02);
  EXPECT_EQ(settings["precision"], "bf16");
  EXPECT_EQ(settings["clip"], 0.5);
  EXPECT_EQ(settings["seed"], 5);
  outcome = run_program(quick("--resume --devices cpu:0,cpu:0" + checkpoint));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("otherwise"), std::string::npos) << outcome.output;
}

TEST_F(ProgramTest, KeepsTheResultsBeforeARunThatDoesNothing) {
  std::ofstream(folder_ / "run.json") << "results";
  std::ofstream(folder_ / "run.svg") << "a picture";
  const std::string outputs = "--json " + path("run.json") + " --svg " + path("run.svg");
  const Outcome outcome = run_program(quick("--devices abacus:0 " + outputs));
  EXPECT_EQ(outcome.exit_code, 2) << outcome.output;
  EXPECT_EQ(contents("run.json"), "results");
  EXPECT_EQ(contents("run.svg"), "a picture");
}

TEST_F(ProgramTest, WritesTheStepsOfARunThatFails) {
  // The export cannot replace a folder; the program only tries at the end.
  fs::create_directories(path("out/model.safetensors"));
  const Outcome outcome = run_program(quick("--steps 5 --json " + path("run.json") + " --svg " +
                                            path("run.svg") + " --export " + path("out")));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  const nlohmann::json run = nlohmann::json::parse(contents("run.json"), nullptr, false);
  ASSERT_TRUE(run.is_object()) << outcome.output;
  EXPECT_EQ(run["losses_nats_per_byte"].size(), 5U);
  EXPECT_NE(run.value("failure", "").find(path("out")), std::string::npos) << run;
  EXPECT_NE(contents("run.svg").find("</svg>"), std::string::npos);
}

TEST_F(ProgramTest, WritesIntoPipes) {
  const Outcome outcome = run_program(quick("--steps 1 --json /dev/stdout"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("\"losses_nats_per_byte\""), std::string::npos) << outcome.output;
}

TEST_F(ProgramTest, ProcessesDoWhatDevicesOfOneDo) {
  const std::string launcher = "keel run -n 2 --";
  const std::string steps = quick("--steps 4 --devices cpu:0,cpu:0");
  Outcome outcome = run_program(steps + " --json " + path("one.json"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  outcome = run_program(steps + " --json " + path("two.json") + " --checkpoint " +
                            path("run.safetensors") + " --export " + path("out"),
                        launcher);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const size_t first = outcome.output.find("held-out text");
  EXPECT_NE(first, std::string::npos) << outcome.output;
  EXPECT_EQ(outcome.output.find("held-out text", first + 1), std::string::npos) << outcome.output;
  EXPECT_TRUE(fs::exists(path("out/model.safetensors")));
  const std::vector<double> want = losses_of("one.json");
  const std::vector<double> got = losses_of("two.json");
  ASSERT_EQ(got.size(), 4U);
  ASSERT_EQ(want.size(), 4U);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4);

  outcome =
      run_program(quick("--resume --steps 6 --checkpoint " + path("run.safetensors")), launcher);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  outcome = run_program(quick("--dump " + path("steps")), launcher);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("--dump"), std::string::npos) << outcome.output;
}

// Runs on each backend alone, and together with the CPU.
class ProgramOnChip : public ProgramTest, public testing::WithParamInterface<const char*> {
 protected:
  // Variables that let the program find the chip: the location of the emulated CUDA libraries.
  static std::string settings() {
    if (std::string(GetParam()) != "cuda") return {};
    return "KEEL_EMULATED_CUDA=devices=1 KEEL_CUDA_LIBRARY_FOLDER=" + programs() +
           "/../lib/keel/emulated/cuda";
  }
};

TEST_P(ProgramOnChip, DoesWhatTheCpuDoes) {
  if (is_variant()) GTEST_SKIP() << "chips do here what they do without it; once is enough";
  const std::string chip = std::string(GetParam()) + ":0";
  const Outcome there = run_command(settings() + " " + programs() + "/keel devices");
  if (there.output.find(chip) == std::string::npos) GTEST_SKIP() << "there is no " << chip;
  for (const std::string model : {"gpt2", "llama"}) {
    const std::string steps = quick("--steps 3 --model " + model + " --json ");
    Outcome outcome = run_program(steps + path("cpu.json"));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::vector<double> want = losses_of("cpu.json");
    ASSERT_EQ(want.size(), 3U);
    const std::string both = chip + ",cpu:0";
    const std::string mesh = model == "gpt2" ? " --mesh dp=2 --sharding 1" : " --mesh tp=2";
    for (const std::string& devices : {chip, both, both + mesh}) {
      SCOPED_TRACE(model + " on " + devices);
      outcome = run_program(steps + path("chip.json") + " --devices " + devices, {}, settings());
      ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
      const std::vector<double> got = losses_of("chip.json");
      ASSERT_EQ(got.size(), 3U);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4) << i;
    }
    outcome = run_program(steps + path("chip.json") + " --precision bf16 --devices " + chip, {},
                          settings());
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    const std::vector<double> rounded = losses_of("chip.json");
    ASSERT_EQ(rounded.size(), 3U);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(rounded[i], want[i], 0.05) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramOnChip, testing::Values("vulkan", "cuda"),
                         [](const auto& test) { return std::string(test.param); });

TEST_F(ProgramTest, DumpsItsFirstSteps) {
  const Outcome outcome = run_program(quick("--steps 3 --dump-steps 2 --dump " + path("steps")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_TRUE(fs::exists(path("steps/step_000001.safetensors")));
  EXPECT_TRUE(fs::exists(path("steps/step_000002.safetensors")));
  EXPECT_FALSE(fs::exists(path("steps/step_000003.safetensors")));
  const Outcome again = run_program(quick("--steps 1 --dump " + path("steps")));
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.output.find("is there already"), std::string::npos) << again.output;
}

TEST_F(ProgramTest, RefusesBadInputAndNamesTheArgument) {
  if (is_variant()) GTEST_SKIP() << "it is refused before anything runs; once is enough";
  struct Case {
    std::string arguments;
    int exit_code;
    std::string expected;
  };
  const std::string text = "--text " + path("text") + " ";
  const std::vector<Case> cases = {
      {"--text " + path("missing"), 2, "there is no such file"},
      {text + "--context 100000", 2, "too few for --context 100000"},
      {text + "--width 15", 2, "--width 15"},
      {quick("--kv-heads 1"), 2, "--kv-heads"},
      {quick("--model mamba"), 2, "--model"},
      {quick("--precision fp8"), 2, "--precision"},
      {quick("--devices abacus:0"), 2, "--devices abacus:0"},
      {text + "--devices cpu:0,cpu:0 --batch 3", 2, "--batch 3"},
      {quick("--learning-rate nan"), 2, "--learning-rate"},
      {quick("--resume"), 2, "--checkpoint"},
      {quick("--checkpoint " + path("text")), 2, "is there already"},
      {quick("--resume --checkpoint " + path("none")), 1, "cannot be opened"},
      {quick("--import " + path("text")), 1, "its header claims"},
      {quick("--json " + path("no/such/folder")), 2, "--json"},
      {quick("--export " + path("text") + "/out"), 2, "--export"},
      {quick("--frobnicate"), 2, "--frobnicate"},
  };
  for (const Case& bad : cases) {
    const Outcome outcome = run_program(bad.arguments);
    EXPECT_EQ(outcome.exit_code, bad.exit_code) << bad.arguments << outcome.output;
    EXPECT_NE(outcome.output.find(bad.expected), std::string::npos)
        << bad.arguments << " should say " << bad.expected << ", said\n"
        << outcome.output;
  }
}

}  // namespace
}  // namespace train_gpt
