// SPDX-License-Identifier: Apache-2.0
// Tests the parts separately, and the program as a user runs it.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <keel/keel.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/ipc/process.h"
#include "samples/mixed_training/checks.h"
#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/parameters.h"
#include "samples/mixed_training/work_shares.h"

namespace mixed_training {
namespace {

namespace fs = std::filesystem;
using keel::Process;
using keel::ProcessEnd;
using keel::ProcessOptions;
using std::chrono::milliseconds;

// ---- shares ------------------------------------------------------------------------

TEST(SplitBatch, FollowsTheSpeeds) {
  EXPECT_EQ(split_batch(512, std::vector<double>{3, 1}), (std::vector<int64_t>{384, 128}));
  EXPECT_EQ(split_batch(24, std::vector<double>{1, 1}), (std::vector<int64_t>{16, 8}));
}

TEST(SplitBatch, LeavesNoDeviceWithoutWork) {
  EXPECT_EQ(split_batch(64, std::vector<double>{1e9, 1}), (std::vector<int64_t>{56, 8}));
  EXPECT_EQ(split_batch(24, std::vector<double>{1, 1e9, 1}), (std::vector<int64_t>{8, 8, 8}));
}

TEST(SplitBatch, GivesOutEveryRowInUnits) {
  for (int64_t batch = 32; batch <= 1024; batch += kShareRows) {
    const std::vector<int64_t> rows = split_batch(batch, std::vector<double>{5, 0.01, 1.7, 31});
    EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), int64_t{0}), batch);
    for (int64_t share : rows) {
      EXPECT_GE(share, kShareRows);
      EXPECT_EQ(share % kShareRows, 0);
    }
  }
}

TEST(WorkShares, SettleWhereAllDevicesAreDoneTogether) {
  WorkShares shares(512, 2);
  EXPECT_EQ(shares.rows()[0], 256);
  for (int round = 0; round < 20; ++round) {  // device 0: 1 ms per row, device 1: 3 ms
    shares.add(0, milliseconds(shares.rows()[0]));
    shares.add(1, milliseconds(3 * shares.rows()[1]));
    shares.rebalance();
  }
  EXPECT_EQ(shares.rows()[0], 384);
  EXPECT_EQ(shares.rows()[1], 128);
  EXPECT_NEAR(shares.mean_speed(0), 1000, 1e-6);
}

TEST(WorkShares, StayWithoutMeasurements) {
  WorkShares shares(64, 2);
  shares.rebalance();
  EXPECT_EQ(shares.rows()[0], 32);
}

// ---- batches -----------------------------------------------------------------------

struct HostBatch {
  explicit HostBatch(int64_t rows)
      : contexts(static_cast<size_t>(rows * kContext)), labels(static_cast<size_t>(rows)) {}
  Batch view() { return {contexts, labels}; }
  std::vector<int32_t> contexts;
  std::vector<int32_t> labels;
};

std::string counting_text(int64_t size) {
  std::string text;
  for (int64_t i = 0; i < size; ++i) text.push_back(static_cast<char>(i % 251));
  return text;
}

TEST(Corpus, BatchIsTheSameHoweverItIsSharedOut) {
  const Corpus corpus(counting_text(5000), 64);
  HostBatch whole(64);
  HostBatch first(24);
  HostBatch second(40);
  corpus.sample(/*seed=*/7, /*step=*/3, 0, whole.view());
  corpus.sample(7, 3, 0, first.view());
  corpus.sample(7, 3, 24, second.view());
  first.contexts.insert(first.contexts.end(), second.contexts.begin(), second.contexts.end());
  first.labels.insert(first.labels.end(), second.labels.begin(), second.labels.end());
  EXPECT_EQ(first.contexts, whole.contexts);
  EXPECT_EQ(first.labels, whole.labels);

  HostBatch other_step(64);
  corpus.sample(7, 4, 0, other_step.view());
  EXPECT_NE(other_step.labels, whole.labels);
  HostBatch other_seed(64);
  corpus.sample(8, 3, 0, other_seed.view());
  EXPECT_NE(other_seed.labels, whole.labels);
}

TEST(Corpus, LabelIsTheByteAfterTheContext) {
  const Corpus corpus(counting_text(5000), 64);
  HostBatch batch(64);
  corpus.sample(1, 0, 0, batch.view());
  for (size_t row = 0; row < 64; ++row) {
    for (int64_t i = 1; i < kContext; ++i) {
      const size_t at = row * kContext + static_cast<size_t>(i);
      EXPECT_EQ(batch.contexts[at], (batch.contexts[at - 1] + 1) % 251);
    }
    EXPECT_EQ(batch.labels[row], (batch.contexts[row * kContext + kContext - 1] + 1) % 251);
  }
}

TEST(Corpus, NeverTrainsOnHeldOutBytes) {
  std::string text(1000, 'a');
  std::fill(text.begin() + 900, text.end(), 'b');
  const Corpus corpus(text, 64);
  for (int64_t step = 0; step < 200; ++step) {
    HostBatch batch(64);
    corpus.sample(1, step, 0, batch.view());
    EXPECT_EQ(std::set<int32_t>(batch.labels.begin(), batch.labels.end()).count('b'), 0U);
  }
  HostBatch held_out(corpus.held_out_rows());
  corpus.held_out(0, held_out.view());
  EXPECT_EQ(std::set<int32_t>(held_out.labels.begin(), held_out.labels.end()),
            std::set<int32_t>{'b'});
}

// ---- checks ------------------------------------------------------------------------

TrainingRun small_run(const ParameterLayout& layout) {
  TrainingRun run;
  run.first_gradients.assign(2, layout.initial_values(1));
  run.losses = {5.5, 5.0};
  for (size_t rank = 0; rank < 2; ++rank) {  // biases are 0, so no ratio exists
    for (float& value : run.first_gradients[rank]) value += 0.01F;
  }
  return run;
}

std::vector<std::string> failures(const std::vector<Check>& checks) {
  std::vector<std::string> names;
  for (const Check& check : checks) {
    if (!check.passed()) names.push_back(check.name);
  }
  return names;
}

TEST(Checks, FindWhatDiffers) {
  const std::string loss_check = "loss of the first 2 steps, where it differs most";
  const ParameterLayout layout(16);
  const TrainingRun reference = small_run(layout);
  EXPECT_EQ(failures(compare(layout, reference, reference)), std::vector<std::string>{});

  TrainingRun other_loss = reference;
  other_loss.losses[1] *= 1.001;
  EXPECT_EQ(failures(compare(layout, other_loss, reference)), std::vector<std::string>{loss_check});

  TrainingRun other_gradient = reference;
  const Parameter& bias = layout.all()[kBias2];
  for (auto& gradient : other_gradient.first_gradients) {
    gradient[static_cast<size_t>(bias.offset)] *= 1.1F;
  }
  EXPECT_EQ(failures(compare(layout, other_gradient, reference)),
            std::vector<std::string>{"first gradient of bias2"});

  TrainingRun torn = reference;
  torn.first_gradients[1][5] = std::nextafter(torn.first_gradients[1][5], 1.0F);
  EXPECT_EQ(failures(compare(layout, torn, reference)).size(), 1U);

  TrainingRun nan = reference;
  nan.losses[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(failures(compare(layout, nan, reference)), std::vector<std::string>{loss_check});
}

// ---- the program -------------------------------------------------------------------

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

// The running program, started with |arguments|.
class Program {
 public:
  explicit Program(std::vector<std::string> arguments) {
    const char* folder = std::getenv("KEEL_TEST_BIN");
    ProcessOptions options;
    options.command = std::move(arguments);
    options.command.insert(options.command.begin(),
                           std::string(folder == nullptr ? "." : folder) + "/mixed_training");
    options.output = ProcessOptions::Stream::kPiped;
    options.errors = ProcessOptions::Stream::kAsOutput;
    EXPECT_EQ(process_.start(options), 0) << options.command[0];
  }

  Outcome wait() {
    Outcome outcome{-1, {}};
    std::string none;
    const auto deadline = Process::Clock::now() + std::chrono::minutes(20);
    if (!process_.read_all(deadline, &outcome.output, &none)) process_.kill(SIGKILL);
    if (!process_.is_running()) return outcome;
    const ProcessEnd end = process_.wait();
    if (end.signal == 0) outcome.exit_code = end.exit_code;
    return outcome;
  }

 private:
  Process process_;
};

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string pattern = (fs::temp_directory_path() / "mixed_training_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
    // Text with a learnable pattern, long enough for the default batch.
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + " of the text\n";
    text_ = write("text", text);
  }
  ~ProgramTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return path(name);
  }
  nlohmann::json read_json(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }
  // Arguments of a training that takes seconds.
  std::vector<std::string> quick(std::vector<std::string> more) const {
    std::vector<std::string> all = {"--text",   text_, "--steps",        "30", "--batch", "64",
                                    "--hidden", "32",  "--report-every", "10"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  fs::path folder_;
  std::string text_;
};

bool has_device(const std::string& name) {
  const keel::Runtime runtime;
  keel_device device;
  return keel_device_find(name.c_str(), &device) == KEEL_OK;
}

TEST_F(ProgramTest, TrainsOnCpuAndVulkanAtOnce) {
  if (!has_device("vulkan:0")) GTEST_SKIP() << "no Vulkan device on this machine";
  const Outcome outcome =
      Program(quick({"--devices", "cpu:0,vulkan:0", "--json", path("run.json")})).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json run = read_json("run.json");
  ASSERT_TRUE(run.is_object()) << outcome.output;
  ASSERT_EQ(run["devices"].size(), 2U);
  EXPECT_EQ(run["devices"][0]["name"], "cpu:0");
  EXPECT_EQ(run["devices"][1]["name"], "vulkan:0");
  for (const nlohmann::json& device : run["devices"]) {
    EXPECT_GT(device["tokens_per_second"], 0);
    // 30 gradients and 3 broadcasts of parameters.
    EXPECT_EQ(device["communicator"]["operations"], 33);
  }
  EXPECT_EQ(run["passed"], true);
  EXPECT_EQ(run["checks"].size(), 2U + kParameterCount);
  EXPECT_EQ(run["intervals"].size(), 3U);
  EXPECT_FALSE(run["sample"].get<std::string>().empty());
  for (const nlohmann::json& change : run["shares"]) {
    EXPECT_EQ(change["rows"][0].get<int64_t>() + change["rows"][1].get<int64_t>(), 64);
  }
  // The model learned: without knowledge the loss is about ln(256) = 5.5.
  const std::vector<double> losses = run["losses_nats_per_byte"];
  EXPECT_LT(losses.back(), 0.75 * losses.front());
}

// Kunlun's runtime has none.
TEST_F(ProgramTest, TrainsBesideAChipWithoutTimingEvents) {
  if (std::getenv("KEEL_CPU_GUARD") != nullptr || std::getenv("KEEL_VALIDATE") != nullptr) {
    GTEST_SKIP() << "the chip's memory is out of the host's reach anyway; once is enough";
  }
  setenv("KEEL_KUNLUN_LIBRARY_FOLDER", KEEL_EMULATED_KUNLUN_FOLDER, 1);
  const Outcome outcome = Program(quick({"--devices", "cpu:0,kunlun:0", "--json", path("run.json"),
                                         "--svg", path("run.svg"), "--title", "Two & more"}))
                              .wait();
  unsetenv("KEEL_KUNLUN_LIBRARY_FOLDER");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json run = read_json("run.json");
  EXPECT_GT(run["devices"][1]["tokens_per_second"], 0);
  std::ifstream file(path("run.svg"));
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  for (const char* part : {"Two &amp; more", "cpu:0: ", "kunlun:0: ", "<polyline"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << "no " << part << " in " << svg;
  }
}

TEST_F(ProgramTest, TrainsOnOneDeviceTwice) {
  const Outcome outcome = Program(quick({"--devices", "cpu:0,cpu:0"})).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.output.find("FAIL"), std::string::npos) << outcome.output;
}

TEST_F(ProgramTest, DefaultDevicesBeginWithTheCpu) {
  const Outcome outcome = Program(quick({"--json", path("run.json")})).wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  const nlohmann::json run = read_json("run.json");
  ASSERT_TRUE(run.is_object()) << outcome.output;
  EXPECT_EQ(run["devices"][0]["name"], "cpu:0");
}

TEST_F(ProgramTest, SameSeedSameTrainingAndTwoProcessesAtOnce) {
  Program first(quick({"--devices", "cpu:0", "--json", path("first.json")}));
  Program second(quick({"--devices", "cpu:0", "--json", path("second.json")}));
  const Outcome first_outcome = first.wait();
  const Outcome second_outcome = second.wait();
  EXPECT_EQ(first_outcome.exit_code, 0) << first_outcome.output;
  EXPECT_EQ(second_outcome.exit_code, 0) << second_outcome.output;
  const nlohmann::json a = read_json("first.json");
  const nlohmann::json b = read_json("second.json");
  ASSERT_TRUE(a.is_object() && b.is_object());
  EXPECT_EQ(a["losses_nats_per_byte"], b["losses_nats_per_byte"]);
  EXPECT_EQ(a["sample"], b["sample"]);
}

TEST_F(ProgramTest, RefusesBadInputAndNamesTheArgument) {
  if (std::getenv("KEEL_CPU_GUARD") != nullptr || std::getenv("KEEL_VALIDATE") != nullptr) {
    GTEST_SKIP() << "it is refused before there is a device; once is enough";
  }
  const std::string empty = write("empty", "");
  const std::string few = write("few", std::string(500, 'x'));
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> expected;  // all are in the message
  };
  const std::vector<Case> cases = {
      {{"--text", path("missing")}, {"--text", "missing", "there is no such file"}},
      {{"--text", empty}, {"--text", "is empty"}},
      {{"--text", folder_.string()}, {"--text", "is a folder"}},
      {{"--text", "/dev/zero"}, {"--text", "not a regular file"}},
      {{"--text", few}, {"--text", "500 bytes are too few", "--batch 1024"}},
      {{"--text", write("ten", "0123456789"), "--batch", "8"}, {"--text", "too few"}},
      {{"--text", text_, "--devices", "abacus:0"}, {"--devices abacus:0", "cpu:0"}},
      {{"--text", text_, "--devices", "cpu:0,cpu:99"}, {"--devices cpu:99"}},
      {{"--text", text_, "--devices", "cpu:zero"}, {"--devices cpu:zero"}},
      {{"--text", text_, "--devices", "cpu:0,cpu:0", "--batch", "8"}, {"--batch 8", "2 devices"}},
      {{"--steps", "0"}, {"--steps"}},
      {{"--steps", "many"}, {"--steps"}},
      {{"--batch", "-8"}, {"--batch"}},
      {{"--batch", "12"}, {"--batch", "multiple of 8"}},
      {{"--hidden", "7"}, {"--hidden"}},
      {{"--hidden", "99999999999999999999"}, {"--hidden"}},
      {{"--seed", "-1"}, {"--seed"}},
      {{"--learning-rate", "nan"}, {"--learning-rate"}},
      {{"--learning-rate", "0"}, {"--learning-rate"}},
      {{"--learning-rate", "1e400"}, {"--learning-rate"}},
      {{"--report-every", "0"}, {"--report-every"}},
      {{"--json", path("no/such/folder")}, {"--json", "cannot be written"}},
      {{"--frobnicate"}, {"--frobnicate"}},
  };
  for (const Case& bad : cases) {
    const Outcome outcome = Program(bad.arguments).wait();
    EXPECT_EQ(outcome.exit_code, 2) << testing::PrintToString(bad.arguments) << outcome.output;
    for (const std::string& text : bad.expected) {
      EXPECT_NE(outcome.output.find(text), std::string::npos)
          << testing::PrintToString(bad.arguments) << " should say " << text << ", said\n"
          << outcome.output;
    }
  }
}

}  // namespace
}  // namespace mixed_training
