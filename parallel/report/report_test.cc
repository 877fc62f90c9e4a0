// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <keel/parallel/report.hpp>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "parallel/testing/thread_ranks.h"

namespace keel::parallel {
namespace {

RankSteps steps(std::vector<Span> spans) {
  RankSteps rank;
  rank.device = "cpu:0";
  rank.spans = std::move(spans);
  return rank;
}

// Rank 0 sends at 2 and rank 1 has called its receive at 0; the message takes until 3. Rank 1 then
// computes from 3 to 8, rank 0 again from 9 to 10.
std::vector<RankSteps> two_ranks() {
  return {steps({{SpanKind::kForward, 0, 0, 0, 2},
                 {SpanKind::kSend, 0, 0, 2, 3},
                 {SpanKind::kReceiveGradient, 0, 0, 2, 9},
                 {SpanKind::kBackward, 0, 0, 9, 10}}),
          steps({{SpanKind::kReceive, 1, 0, 0, 3},
                 {SpanKind::kForward, 1, 0, 3, 5},
                 {SpanKind::kBackward, 1, 0, 5, 8},
                 {SpanKind::kSendGradient, 1, 0, 8, 9}})};
}

TEST(ReportTest, OnlyTheDatasWayIsCommunication) {
  const StepReport report = analyse(two_ranks(), /*bubble=*/0.4);
  EXPECT_DOUBLE_EQ(report.seconds, 10);
  const TimeShares& first = report.ranks[0].shares;
  EXPECT_NEAR(first.compute, 0.3, 1e-12);
  EXPECT_NEAR(first.communication, 0.2, 1e-12);  // 2 to 3, and 8 to 9
  EXPECT_NEAR(first.bubble, 0.4, 1e-12);
  EXPECT_NEAR(first.imbalance, 0.1, 1e-12);
  const TimeShares& second = report.ranks[1].shares;
  EXPECT_NEAR(second.compute, 0.5, 1e-12);
  EXPECT_NEAR(second.communication, 0.2, 1e-12);  // 2 to 3, and 8 to 9
  EXPECT_NEAR(second.bubble, 0.3, 1e-12);
  EXPECT_NEAR(second.imbalance, 0, 1e-12);
}

TEST(ReportTest, SharesAddUpToAllOfTheStep) {
  std::vector<RankSteps> ranks = two_ranks();
  ranks[0].spans.push_back({SpanKind::kRecompute, 0, 0, 9, 9.5});
  ranks[0].spans.push_back({SpanKind::kLoader, 0, 0, 1, 4});  // from 2 on nothing computes
  ranks[1].spans.push_back({SpanKind::kCollective, 0, 0, 7, 9.5});
  for (const double bubble : {0.0, 0.1, 0.9}) {
    const StepReport report = analyse(ranks, bubble);
    for (const RankReport& rank : report.ranks) EXPECT_NEAR(rank.shares.sum(), 1, 1e-12);
    EXPECT_NEAR(report.mean.sum(), 1, 1e-12);
    EXPECT_NEAR(report.ranks[0].shares.recompute, 0.05, 1e-12);
    EXPECT_NEAR(report.ranks[0].shares.loader, 0.2, 1e-12);
    EXPECT_NEAR(report.ranks[0].shares.compute, 0.25, 1e-12);
  }
}

// A collective begins when the last of its ranks has called.
TEST(ReportTest, WaitingForALateRankIsNoCommunication) {
  const std::vector<RankSteps> ranks = {steps({{SpanKind::kCollective, 7, 0, 0, 10}}),
                                        steps({{SpanKind::kCollective, 7, 0, 6, 10}})};
  const StepReport report = analyse(ranks, 0);
  EXPECT_NEAR(report.ranks[0].shares.communication, 0.4, 1e-12);
  EXPECT_NEAR(report.ranks[0].shares.imbalance, 0.6, 1e-12);
}

// One rank of a step of 20: two passes with all that may be in and beside them.
std::vector<RankSteps> a_step_of_every_kind() {
  Span inline_collective{SpanKind::kTensorCollective, 0, 0, 3, 5};  // its ranks have called at 4
  Span wait{SpanKind::kWait, 0, 0, 9, 11};  // for the gather that ends at 11, from 8 on
  inline_collective.blocks = wait.blocks = true;
  const std::vector<Span> first = {{SpanKind::kLoader, 0, 0, 0, 1},
                                   {SpanKind::kForward, 0, 0, 1, 6},
                                   inline_collective,
                                   {SpanKind::kValueGather, 0, 0, 8, 11},
                                   {SpanKind::kBackward, 0, 0, 6, 14},
                                   {SpanKind::kRecompute, 0, 0, 8, 10},
                                   wait,
                                   {SpanKind::kGradientBucket, 0, 0, 12, 16},
                                   {SpanKind::kOptimizer, 0, 0, 17, 19}};
  Span late{SpanKind::kTensorCollective, 0, 0, 4, 5};
  late.blocks = true;
  const std::vector<Span> second = {{SpanKind::kForward, 0, 0, 0, 20}, late};
  return {steps(first), steps(second)};
}

TEST(ReportTest, EachShareOfKnownSpans) {
  const StepReport report = analyse(a_step_of_every_kind(), /*bubble=*/0.1);
  EXPECT_DOUBLE_EQ(report.seconds, 20);
  const TimeShares& shares = report.ranks[0].shares;
  // Passes 1 to 14, without 3 to 5, 9 to 11, and 8 to 9 that is recomputation.
  EXPECT_NEAR(shares.compute, 8.0 / 20, 1e-12);
  EXPECT_NEAR(shares.recompute, 1.0 / 20, 1e-12);
  EXPECT_NEAR(shares.optimizer, 2.0 / 20, 1e-12);
  EXPECT_NEAR(shares.loader, 1.0 / 20, 1e-12);
  // 4 to 5, 9 to 11, 14 to 16: what is behind a pass is hidden.
  EXPECT_NEAR(shares.communication, 5.0 / 20, 1e-12);
  // 3 to 4, 16 to 17, 19 to 20.
  EXPECT_NEAR(shares.bubble, 2.0 / 20, 1e-12);
  EXPECT_NEAR(shares.imbalance, 1.0 / 20, 1e-12);
  EXPECT_NEAR(shares.sum(), 1, 1e-12);
  EXPECT_NEAR(computing_seconds(a_step_of_every_kind()[0].spans), 9, 1e-12);

  ASSERT_EQ(report.stages.size(), 2U);
  EXPECT_NEAR(report.stages[0].busy_seconds, 9, 1e-12);
  EXPECT_NEAR(report.stages[0].recompute_seconds, 1, 1e-12);
  EXPECT_NEAR(report.stages[0].blocked_seconds, 4, 1e-12);
  for (const CommunicationReport& entry : report.communication) {
    switch (entry.kind) {
      case SpanKind::kTensorCollective:
        EXPECT_EQ(entry.spans, 2U);
        EXPECT_NEAR(entry.seconds, 2, 1e-12);
        EXPECT_NEAR(entry.exposed_seconds, 2, 1e-12);
        break;
      case SpanKind::kValueGather:
        EXPECT_NEAR(entry.seconds, 3, 1e-12);
        EXPECT_NEAR(entry.exposed_seconds, 2, 1e-12);
        break;
      default:
        EXPECT_EQ(entry.kind, SpanKind::kGradientBucket);
        EXPECT_NEAR(entry.seconds, 4, 1e-12);
        EXPECT_NEAR(entry.exposed_seconds, 2, 1e-12);
    }
  }
  EXPECT_EQ(report.communication.size(), 3U);
}

// Two pipelines beside each other send the same micro-batches of the same stages.
TEST(ReportTest, MessagesOfAnotherPipelineAreNoneOfThisOne) {
  std::vector<RankSteps> ranks = two_ranks();
  for (const RankSteps& rank : two_ranks()) {
    ranks.push_back(rank);
    for (Span& span : ranks.back().spans) {
      span.group = 1;
      span.begin += 100;
      span.end += 100;
    }
  }
  const StepReport report = analyse(ranks, 0);
  EXPECT_NEAR(report.ranks[0].shares.communication * report.seconds, 2, 1e-9);
  EXPECT_NEAR(report.ranks[2].shares.communication * report.seconds, 2, 1e-9);
}

TEST(ReportTest, MfuOfAChipAndOfAll) {
  std::vector<RankSteps> ranks = two_ranks();
  ranks[0].model_flops = 100;
  ranks[0].peak_flops_per_s = 20;
  ranks[1].model_flops = 300;
  ranks[1].peak_flops_per_s = 60;
  const StepReport report = analyse(ranks, 0);
  EXPECT_NEAR(report.ranks[0].mfu, 0.5, 1e-12);
  EXPECT_NEAR(report.mfu, 400.0 / (10 * 80), 1e-12);
  ranks[1].peak_flops_per_s = 0;
  EXPECT_EQ(analyse(ranks, 0).mfu, 0);
}

TEST(ReportTest, StagesAndTexts) {
  const StepReport report = analyse(two_ranks(), 0.4);
  ASSERT_EQ(report.stages.size(), 2u);
  EXPECT_NEAR(report.stages[1].busy_seconds, 5, 1e-12);
  EXPECT_NE(text(report).find("1 cpu:0"), std::string::npos);
  nlohmann::json parsed;
  std::string error;
  ASSERT_TRUE(parse_json(json(report), &parsed, &error)) << error;
  EXPECT_NEAR(parsed["ranks"][1]["communication"].get<double>(), 0.2, 1e-9);
}

TEST(ReportTest, NothingRecorded) {
  EXPECT_EQ(analyse({}, 0).seconds, 0);
  const StepReport report = analyse(std::vector<RankSteps>{steps({})}, 0.5);
  EXPECT_EQ(report.ranks[0].shares.sum(), 0);
}

TEST(SvgTest, HasARowForEachRankAndEscapesNames) {
  std::vector<RankSteps> ranks = two_ranks();
  ranks[1].device = "a<b";
  const std::string picture = svg(ranks, "1f1b & more");
  EXPECT_NE(picture.find("1f1b &amp; more"), std::string::npos);
  EXPECT_NE(picture.find("1 a&lt;b"), std::string::npos);
  EXPECT_NE(picture.find("backward, stage 1, micro-batch 0: 5000.000 to 8000.000 ms"),
            std::string::npos);
  EXPECT_EQ(picture.substr(picture.size() - 7), "</svg>\n");
}

TEST(SvgTest, LegendNamesTheKindsThatOccur) {
  const std::string picture = svg(a_step_of_every_kind(), "step");
  for (const char* const entry :
       {">forward<", ">backward<", ">recompute<", ">optimizer<", ">loader<",
        ">wait for another stream<", ">tensor parallel<", ">gradients, all_reduce<",
        ">values, all_gather<", ">pale: until all of its ranks have called<"}) {
    EXPECT_NE(picture.find(entry), std::string::npos) << entry;
  }
  for (const char* const entry : {">backward, weights<", ">message between stages<"}) {
    EXPECT_EQ(picture.find(entry), std::string::npos) << entry;
  }
}

class RecorderTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("KEEL_CPU_DEVICES", "3", 1);
    keel_init_options options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "cpu";
    options.default_timeout_ns = 60'000'000'000;
    runtime_ = std::make_unique<Runtime>(options);
  }
  static void TearDownTestSuite() { runtime_.reset(); }
  static inline std::unique_ptr<Runtime> runtime_;
};

TEST_F(RecorderTest, SpansOfStreamsAndHostComeInOrder) {
  const Stream stream(Device::find("cpu:0"));
  const Buffer buffer = Buffer::of<float>(stream.device(), 1 << 20);
  Stream& enqueue = const_cast<Stream&>(stream);
  StepRecorder recorder;
  for (int step = 0; step < 2; ++step) {  // the second reuses the events
    recorder.start(stream);
    const auto now = std::chrono::steady_clock::now();
    const size_t first = recorder.begin(stream, SpanKind::kForward, 3, 4);
    enqueue.fill(buffer, 1.0F);
    recorder.end(first, stream);
    const size_t second = recorder.begin(stream, SpanKind::kBackward, 3, 4);
    enqueue.fill(buffer, 2.0F);
    recorder.end(second, stream);
    recorder.add_host_span(SpanKind::kLoader, now);
    const std::vector<Span> spans = recorder.finish();
    ASSERT_EQ(spans.size(), 3u);
    const auto find = [&](SpanKind kind) {
      for (const Span& span : spans) {
        if (span.kind == kind) return span;
      }
      ADD_FAILURE();
      return Span{};
    };
    const Span forward = find(SpanKind::kForward);
    const Span backward = find(SpanKind::kBackward);
    EXPECT_EQ(forward.stage, 3u);
    EXPECT_EQ(forward.micro_batch, 4u);
    EXPECT_GE(forward.begin, 0);
    EXPECT_LE(forward.begin, forward.end);
    EXPECT_LE(forward.end, backward.begin);
    EXPECT_LE(backward.begin, backward.end);
    EXPECT_GE(find(SpanKind::kLoader).end, 0);
  }
}

TEST_F(RecorderTest, EveryRankGetsAllSteps) {
  const std::vector<Device> devices = {Device::find("cpu:0"), Device::find("cpu:1"),
                                       Device::find("cpu:2")};
  const std::vector<std::string> failures =
      run_thread_ranks(devices, [](uint32_t rank, Communicator& world, Device device) {
        const Stream stream(device);
        RankSteps own;
        own.device = "cpu:" + std::to_string(rank);
        own.model_flops = rank;
        // None, one and two spans.
        for (uint32_t i = 0; i < rank; ++i)
          own.spans.push_back({SpanKind::kForward, rank, i, 1, 2});
        const std::vector<RankSteps> all = gather_steps(world, stream, own);
        ASSERT_EQ(all.size(), 3u);
        for (uint32_t other = 0; other < 3; ++other) {
          EXPECT_EQ(all[other].device, "cpu:" + std::to_string(other));
          EXPECT_EQ(all[other].model_flops, other);
          ASSERT_EQ(all[other].spans.size(), other);
          for (uint32_t i = 0; i < other; ++i) EXPECT_EQ(all[other].spans[i].micro_batch, i);
        }
      });
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

}  // namespace
}  // namespace keel::parallel
