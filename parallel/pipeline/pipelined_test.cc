// SPDX-License-Identifier: Apache-2.0
// Engines on pipelines against an engine on one device, with the same micro-batches.
#include <gtest/gtest.h>

#include <atomic>
#include <keel/parallel/pipelined.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

constexpr int64_t kMicroBatches = 4;
constexpr int64_t kSteps = 3;

Settings settings_of(Architecture architecture) {
  Settings settings = tiny_settings(architecture);
  settings.micro_batches = kMicroBatches;
  return settings;
}

const Training& one_device(Architecture architecture) {
  static std::map<Architecture, Training> known;
  Options options;
  options.steps = kSteps;
  const auto [found, is_new] = known.try_emplace(architecture);
  if (is_new) found->second = train(settings_of(architecture), options);
  return found->second;
}

struct Case {
  const char* name;
  const char* schedule;
  const char* mesh;
  uint32_t chunks = 1;
  Architecture architecture = Architecture::kLlama;
  const char* backends = "cpu";
  // One device adds up the same numbers in the same order.
  bool is_exact = true;
  void (*adjust)(Settings&) = [](Settings&) {};
};

class PipelinedTest : public ::testing::TestWithParam<Case> {};

void expect_equals_one_device(const Case& given) {
  Settings settings = settings_of(given.architecture);
  given.adjust(settings);
  const int64_t ranks = MeshShape::parse(given.mesh).size_of("pp");
  Options options;
  options.mesh = given.mesh;
  options.backends = given.backends;
  options.steps = kSteps;
  options.schedule = [&] {
    return std::make_shared<PipelinedSchedule>(
        make_schedule(given.schedule, static_cast<uint32_t>(ranks), given.chunks, kMicroBatches));
  };
  const Training training = train(settings, options);
  for (const std::string& failure : training.failures) EXPECT_EQ(failure, "");
  const Training& expected = one_device(given.architecture);
  EXPECT_TRUE(!given.is_exact || same_bits(training.gradients, expected.gradients));
  std::string name;
  EXPECT_LE(deviation(training.gradients, expected.gradients, &name), 1e-3) << name;
  ASSERT_EQ(training.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(training.losses[step], expected.losses[step], 1e-4) << "step " << step;
  }
  // Each rank but the last sends every output, each but the first every gradient; of all its
  // chunks.
  const auto boundary =
      static_cast<double>(settings.batch * settings.model.context * settings.model.width * 4);
  double sent = 0;
  for (const auto& traffic : training.traffic) sent += traffic.at("pp").point_to_point;
  const auto stages = static_cast<double>(ranks) * given.chunks;
  const auto groups = static_cast<double>(MeshShape::parse(given.mesh).size_of("tp"));
  EXPECT_DOUBLE_EQ(sent, 2 * (stages - 1) * boundary * groups);
}

TEST_P(PipelinedTest, EqualsOneDevice) {
  expect_equals_one_device(GetParam());
}

TEST_P(PipelinedTest, EqualsOneDeviceOnTwoMakes) {
  Case given = GetParam();
  given.backends = "cpu+sim";
  given.is_exact = false;  // the emulated chip rounds once
  expect_equals_one_device(given);
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, PipelinedTest,
    ::testing::Values(
        Case{"OneFOneB", "1f1b-apart", "pp=2"}, Case{"Interleaved", "interleaved", "pp=2", 2},
        Case{"ZeroBubble", "zero-bubble", "pp=4"},
        // GPT-2's table is on the first and the last rank, each with a part of its gradient.
        Case{"ZeroBubbleGpt2", "zero-bubble", "pp=2", 1, Architecture::kGpt2, "cpu", false},
        Case{"TensorFull", "1f1b", "pp=2,tp=2", 1, Architecture::kLlama, "cpu", false,
             [](Settings& s) { s.recompute = {Recompute::kFull}; }},
        Case{"DataZero2", "zero-bubble", "dp=2,pp=2", 1, Architecture::kLlama, "cpu", false,
             [](Settings& s) { s.sharding = 2; }}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(PipelinedErrorsTest, OtherMicroBatchesAreNamed) {
  Options options;
  options.mesh = "pp=2";
  options.steps = 1;
  options.schedule = [] { return std::make_shared<PipelinedSchedule>(one_f_one_b(2, 3)); };
  const Training training = train(settings_of(Architecture::kLlama), options);
  EXPECT_NE(training.failures[0].find("schedule 1f1b is of 3 micro-batches, the step of 4"),
            std::string::npos)
      << training.failures[0];
}

TEST(PipelinedErrorsTest, RanksWithDifferentSchedulesAreNamed) {
  Options options;
  options.mesh = "pp=2";
  options.steps = 1;
  std::atomic<int> made{0};
  options.schedule = [&] {
    return std::make_shared<PipelinedSchedule>(
        make_schedule(made.fetch_add(1) == 0 ? "1f1b" : "zero-bubble", 2, 1, kMicroBatches));
  };
  const Training training = train(settings_of(Architecture::kLlama), options);
  // A rank that fails aborts the job: the other may see that instead.
  std::string all;
  for (const std::string& failure : training.failures) {
    EXPECT_NE(failure, "");
    all += failure + "\n";
  }
  EXPECT_NE(all.find("config"), std::string::npos) << all;
}

}  // namespace
}  // namespace keel::parallel::testing
