// SPDX-License-Identifier: Apache-2.0
// What a recorded step of a mesh contains, and that its shares add up.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <tuple>

#include "parallel/tests/ranks.h"

namespace keel::parallel::testing {
namespace {

struct Recorded {
  std::vector<RankSteps> ranks;
  double bubble = 0;
};

// The second of two recorded steps, of all ranks, as rank 0 gathers them.
Recorded record(const Settings& settings, const std::string& mesh_text, const char* schedule) {
  start_keel();
  Recorded recorded;
  const MeshShape shape = MeshShape::parse(mesh_text);
  const auto failures = run_ranks(devices_of("cpu", shape.size()), mesh_text, [&](Mesh& mesh) {
    Engine engine(mesh, settings,
                  schedule == nullptr ? nullptr : pipelined(schedule, mesh, settings));
    const Batch batch = batch_of(settings, 0);
    StepRecorder recorder;
    engine.set_recorder(&recorder);
    RankSteps own;
    own.device = mesh.device().name();
    own.model_flops = engine.step_flops();
    own.peak_flops_per_s = 1e12;
    for (int step = 0; step < 2; ++step) {
      mesh.world().barrier(engine.stream());
      engine.stream().synchronize();
      recorder.start(engine.stream());
      const auto begin = std::chrono::steady_clock::now();
      recorder.add_host_span(SpanKind::kLoader, begin);
      engine.step(batch.tokens, batch.labels, 1e-3);
      own.spans = recorder.finish();
    }
    engine.evaluate(batch.tokens, batch.labels);
    EXPECT_TRUE(recorder.finish().empty()) << "an evaluation is no part of a step";
    std::vector<RankSteps> all = gather_steps(mesh.world(), engine.stream(), own);
    if (mesh.rank() != 0) return;
    recorded.ranks = std::move(all);
    recorded.bubble = engine.bubble();
  });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  return recorded;
}

std::set<SpanKind> kinds_of(const RankSteps& rank) {
  std::set<SpanKind> kinds;
  for (const Span& span : rank.spans) kinds.insert(span.kind);
  return kinds;
}

const std::set<SpanKind> kAlways = {
    SpanKind::kForward,    SpanKind::kBackward,         SpanKind::kRecompute, SpanKind::kOptimizer,
    SpanKind::kCollective, SpanKind::kTensorCollective, SpanKind::kLoader,    SpanKind::kWait};

Settings mesh_settings() {
  Settings settings = tiny_settings(Architecture::kGpt2);
  settings.micro_batches = 2;
  settings.recompute = {Recompute::kFull};
  return settings;
}

void expect_whole(const Recorded& recorded) {
  const StepReport report = analyse(recorded.ranks, recorded.bubble);
  ASSERT_EQ(report.ranks.size(), recorded.ranks.size());
  for (const RankReport& rank : report.ranks) {
    EXPECT_NEAR(rank.shares.sum(), 1, 1e-9);
    for (const double share : {rank.shares.compute, rank.shares.recompute, rank.shares.optimizer,
                               rank.shares.communication, rank.shares.loader, rank.shares.bubble,
                               rank.shares.imbalance}) {
      EXPECT_GE(share, 0);
    }
    EXPECT_GT(rank.shares.compute, 0);
    EXPECT_GT(rank.shares.recompute, 0);
    EXPECT_GT(rank.shares.optimizer, 0);
    EXPECT_GT(rank.mfu, 0);
  }
  EXPECT_NEAR(report.mean.sum(), 1, 1e-9);
  EXPECT_GT(report.mean.communication, 0);  // the last rank to call may have none
  EXPECT_GT(report.mfu, 0);
  for (const CommunicationReport& entry : report.communication) {
    EXPECT_LE(entry.exposed_seconds, entry.seconds + 1e-12) << name_of(entry.kind);
  }
}

TEST(StepTimelineTest, EveryKindOfAMeshAppearsAndSharesAddUp) {
  for (const char* const schedule : {static_cast<const char*>(nullptr), "1f1b"}) {
    for (const int64_t level : {0, 1}) {
      SCOPED_TRACE(std::string(schedule == nullptr ? "fill-drain" : schedule) + " level " +
                   std::to_string(level));
      Settings settings = mesh_settings();
      settings.sharding = level;
      const Recorded recorded = record(settings, "pp=2,dp=2,tp=2", schedule);
      ASSERT_EQ(recorded.ranks.size(), 8U);
      for (size_t rank = 0; rank < 8; ++rank) {
        std::set<SpanKind> expected = kAlways;
        if (level == 0) expected.insert(SpanKind::kGradientBucket);
        if (level == 1) expected.insert({SpanKind::kGradientScatter, SpanKind::kValueGather});
        if (rank < 4) expected.insert({SpanKind::kSend, SpanKind::kReceiveGradient});
        if (rank >= 4) expected.insert({SpanKind::kReceive, SpanKind::kSendGradient});
        EXPECT_EQ(kinds_of(recorded.ranks[rank]), expected) << rank;
      }
      expect_whole(recorded);
      EXPECT_NEAR(recorded.bubble, 1.0 / 3, 1e-12);
    }
  }
}

// Every rank of a group records the same collectives, so that the last to call can be found.
TEST(StepTimelineTest, RanksOfAGroupNumberTheirCollectivesAlike) {
  Settings settings = mesh_settings();
  settings.sharding = 2;
  const Recorded recorded = record(settings, "pp=2,dp=2,tp=2", "1f1b");
  std::map<std::tuple<SpanKind, uint32_t, uint32_t>, int> counts;
  for (const RankSteps& rank : recorded.ranks) {
    for (const Span& span : rank.spans) {
      if (!is_communication(span.kind) || is_message(span.kind)) continue;
      ++counts[{span.kind, span.group, span.sequence}];
    }
  }
  EXPECT_FALSE(counts.empty());
  for (const auto& [key, count] : counts) {
    const bool is_world = std::get<0>(key) == SpanKind::kCollective && std::get<1>(key) == 8;
    EXPECT_EQ(count, is_world ? 8 : 2) << name_of(std::get<0>(key)) << " group " << std::get<1>(key)
                                       << " number " << std::get<2>(key);
  }
}

TEST(StepTimelineTest, OperationsOfAllRanksAreTheModels) {
  Settings settings = mesh_settings();
  settings.stage_layers = {3, 1};
  const Recorded recorded = record(settings, "pp=2,dp=2", nullptr);
  const double tokens = static_cast<double>(settings.batch * settings.model.context);
  const double sum =
      std::accumulate(recorded.ranks.begin(), recorded.ranks.end(), 0.0,
                      [](double flops, const RankSteps& rank) { return flops + rank.model_flops; });
  const double expected = tokens * training_flops_per_token(settings.model);
  EXPECT_NEAR(sum, expected, 1e-6 * expected);
  EXPECT_GT(recorded.ranks[0].model_flops, recorded.ranks[2].model_flops);
}

}  // namespace
}  // namespace keel::parallel::testing
