// SPDX-License-Identifier: Apache-2.0
// Tests the program.
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/ipc/process.h"
#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

std::string programs() {
  const char* variable = std::getenv("KEEL_TEST_BIN");
  return variable == nullptr ? "." : variable;
}

Outcome run_command(const std::string& command) {
  Outcome outcome{-1, {}};
  keel::ProcessOptions options;
  options.command = {"sh", "-c", command};
  options.output = keel::ProcessOptions::Stream::kPiped;
  options.errors = keel::ProcessOptions::Stream::kAsOutput;
  keel::ProgramResult result = keel::run_program(options, std::chrono::minutes(20));
  if (result.start_error == 0 && result.end.signal == 0) outcome.exit_code = result.end.exit_code;
  outcome.output = std::move(result.output);
  return outcome;
}

// |launcher| precedes the program; |settings|, environment variables, precede the launcher.
Outcome run_program(const std::string& arguments, const std::string& launcher = {},
                    const std::string& settings = {}) {
  return run_command(settings + " " + (launcher.empty() ? "" : programs() + "/" + launcher + " ") +
                     programs() + "/train_gpt " + arguments);
}

// Returns whether this run uses guarded memory or validation.
bool is_variant() {
  return std::getenv("KEEL_CPU_GUARD") != nullptr || std::getenv("KEEL_VALIDATE") != nullptr;
}

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { std::ofstream(folder_ / "text", std::ios::binary) << lines_of_text(300); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::vector<double> losses_of(const std::string& name) const {
    const nlohmann::json run = nlohmann::json::parse(contents(name), nullptr, false);
    return run.value("losses_nats_per_byte", std::vector<double>());
  }
  double held_out_of(const std::string& name) const {
    const nlohmann::json run = nlohmann::json::parse(contents(name), nullptr, false);
    return run.value("held_out_bits_per_byte", -1.0);
  }
  std::string contents(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Arguments of a very short training.
  std::string quick(const std::string& more) const {
    return "--text " + path("text") +
           " --layers 1 --width 16 --heads 2 --context 16 --batch 4 --warmup 2 --report-every 5 "
           "--sample-length 10 " +
           more;
  }
  Folder folder_;
};

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

// The trainer without a mesh is code of its own, so each proves the other.
TEST_F(ProgramTest, MeshTrainsLikeOneDevice) {
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

TEST_F(ProgramTest, MeshRefusesWhatDoesNotFit) {
  const std::pair<const char*, const char*> cases[] = {
      {"--mesh dp=3 --devices cpu,cpu", "has 3 ranks for 2"},
      {"--mesh dp=two --devices cpu", "axis dp has no size"},
      {"--mesh tp=3 --devices cpu,cpu,cpu", "heads 2 cannot be divided"},
      {"--mesh dp=1 --dump x", "--dump: not with --mesh"},
      {"--mesh dp=1 --export x", "--export: takes --checkpoint"},
      {"--mesh dp=1 --vocabulary 300", "--vocabulary: takes --tokens"},
      {"--tokens x", "--tokens: takes --mesh"},
      {"--mesh dp=1 --checkpoint x --resume", "--checkpoint x"},
      {"--sharding 1", "--sharding: takes --mesh"}};
  for (const auto& [arguments, part] : cases) {
    const Outcome outcome = run_program(quick(std::string("--steps 1 ") + arguments));
    EXPECT_GT(outcome.exit_code, 0) << arguments;
    EXPECT_NE(outcome.output.find(part), std::string::npos) << outcome.output;
  }
}

// Stops on one mesh and goes on with another one, and after that as weights of one device.
TEST_F(ProgramTest, MeshKeepsCheckpointsThatAnyMeshGoesOnFrom) {
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

TEST_F(ProgramTest, MeshReadsTokenFilesByShares) {
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

TEST_F(ProgramTest, MeshTrainsInBfloat16) {
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
