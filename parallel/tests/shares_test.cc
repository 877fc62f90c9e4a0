// SPDX-License-Identifier: Apache-2.0
// Shares of axis dp that change in mid-training, by measured times.
#include <gtest/gtest.h>

#include <mutex>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

Training alone(const Settings& settings, int64_t steps) {
  Settings one = tiny_settings(settings.model.architecture);
  one.model = settings.model;
  Options options;
  options.steps = steps;
  return train(one, options);
}

// |seconds| of each rank, by rank.
std::vector<int64_t> measured(const std::string& mesh_text, const std::vector<int64_t>& shares,
                              const std::vector<double>& seconds) {
  start_keel();
  std::vector<std::vector<int64_t>> found(seconds.size());
  const auto failures = run_ranks(devices_of("cpu", static_cast<int64_t>(seconds.size())),
                                  mesh_text, [&](Mesh& mesh) {
                                    const auto rank = static_cast<size_t>(mesh.rank());
                                    found[rank] = measured_shares(mesh, shares, seconds[rank]);
                                  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  for (const std::vector<int64_t>& each : found) EXPECT_EQ(each, found[0]);
  return found[0];
}

TEST(MeasuredSharesTest, FollowTheSpeedOfTheSlowestRankOfACoordinate) {
  EXPECT_EQ(measured("dp=2", {4, 4}, {1, 3}), (std::vector<int64_t>{6, 2}));
  // The speeds are those of the shares that were measured.
  EXPECT_EQ(measured("dp=2", {6, 2}, {3, 1}), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(measured("dp=2,tp=2", {4, 4}, {1, 3, 1, 1}), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(measured("pp=2,dp=2", {4, 4}, {1, 3, 1, 2}), (std::vector<int64_t>{6, 2}));
}

TEST(MeasuredSharesTest, StayWithoutAGainOrAMeasurement) {
  EXPECT_EQ(measured("dp=2", {4, 4}, {1, 1.04}), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(measured("dp=2", {6, 2}, {1, 1}), (std::vector<int64_t>{6, 2}));
  EXPECT_EQ(measured("dp=2", {6, 2}, {1, 0}), (std::vector<int64_t>{6, 2}));
}

struct Case {
  const char* mesh;
  const char* schedule;
  int64_t sharding, micro_batches;
  bool by_share;
};

// Times as of ranks of which one becomes four times slower, then recovers.
TEST(MeasuredSharesTest, TrainingWithChangingSharesIsThatOfOneDevice) {
  constexpr int64_t kSteps = 8;
  const Case cases[] = {{"dp=2", nullptr, 0, 1, false},
                        {"dp=2,tp=2", nullptr, 3, 1, true},
                        {"pp=2,dp=2", "1f1b", 1, 2, false},
                        {"pp=2,dp=2", "zero-bubble", 0, 2, true}};
  for (const Case& given : cases) {
    SCOPED_TRACE(std::string(given.mesh) + (given.by_share ? " by share" : ""));
    Settings settings = tiny_settings(Architecture::kLlama);
    settings.model.dropout = given.by_share ? 0 : 0.1;
    settings.sharding = given.sharding;
    settings.micro_batches = given.micro_batches;
    const Training expected = alone(settings, kSteps);
    Options options;
    options.mesh = given.mesh;
    options.steps = kSteps;
    options.by_share = given.by_share;
    if (given.schedule != nullptr) {
      options.schedule = [&] {
        return std::make_shared<PipelinedSchedule>(
            make_schedule(given.schedule, 2, 1, static_cast<uint32_t>(given.micro_batches)));
      };
    }
    std::mutex mutex;
    std::vector<std::vector<int64_t>> seen;
    options.before_step = [&](Engine& engine, int64_t step) {
      if (step != 2 && step != 5) return;
      const std::vector<int64_t> now = engine.settings().shares;
      const int64_t coordinate = engine.mesh().coordinate("dp");
      const double speed = step == 2 && coordinate == 1 ? 0.25 : 1;
      const double seconds = static_cast<double>(now[static_cast<size_t>(coordinate)]) / speed;
      engine.set_shares(measured_shares(engine.mesh(), now, seconds));
      if (engine.mesh().rank() != 0) return;
      const std::lock_guard lock(mutex);
      seen.push_back(engine.settings().shares);
    };
    const Training training = train(settings, options);
    for (const std::string& failure : training.failures) EXPECT_EQ(failure, "");
    const int64_t whole = settings.batch / settings.micro_batches;
    const std::vector<int64_t> uneven =
        whole == 8 ? std::vector<int64_t>{6, 2} : std::vector<int64_t>{3, 1};
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0], uneven);
    EXPECT_EQ(seen[1], (std::vector<int64_t>{whole / 2, whole / 2}));
    ASSERT_EQ(training.losses.size(), expected.losses.size());
    for (size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(training.losses[step], expected.losses[step], 1e-4) << step;
    }
  }
}

TEST(MeasuredSharesTest, SharesThatTheMeshCannotRunChangeNothing) {
  start_keel();
  const Settings settings = tiny_settings(Architecture::kGpt2);
  const auto failures = run_ranks(devices_of("cpu", 2), "dp=2", [&](Mesh& mesh) {
    Engine engine(mesh, settings);
    const auto refusal = [&](const std::vector<int64_t>& shares) -> std::string {
      try {
        engine.set_shares(shares);
        return {};
      } catch (const Error& error) {
        return error.what();
      }
    };
    EXPECT_NE(refusal({8, 1}).find("shares must be 2 numbers"), std::string::npos);
    EXPECT_NE(refusal({7, mesh.rank() == 0 ? 1 : 2}).find("shares of"), std::string::npos);
    EXPECT_EQ(engine.settings().shares, (std::vector<int64_t>{4, 4}));
    const Batch batch = batch_of(settings, 0);
    engine.step(batch.tokens, batch.labels, 1e-3);
  });
  EXPECT_EQ(failures, std::vector<std::string>(2));
}

}  // namespace
}  // namespace keel::parallel::testing
