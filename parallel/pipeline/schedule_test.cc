// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <keel/error.hpp>
#include <keel/parallel/schedule.hpp>
#include <numeric>
#include <vector>

namespace keel::parallel {
namespace {

std::string failure(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), KEEL_INVALID_ARGUMENT);
    return error.what();
  }
  return {};
}

std::vector<PipelineSchedule> all_schedules(uint32_t ranks, uint32_t micro_batches) {
  std::vector<PipelineSchedule> all;
  for (const Gradients gradients : {Gradients::kTogether, Gradients::kApart}) {
    all.push_back(one_f_one_b(ranks, micro_batches, gradients));
    for (uint32_t chunks = 1; chunks <= 3; ++chunks) {
      if (ranks < 2 || micro_batches % ranks != 0) continue;
      all.push_back(interleaved(ranks, chunks, micro_batches, gradients));
    }
  }
  if (micro_batches >= ranks) all.push_back(zero_bubble(ranks, micro_batches));
  return all;
}

TEST(ScheduleTest, EverySizeIsValid) {
  for (uint32_t ranks = 1; ranks <= 8; ++ranks) {
    for (uint32_t micro_batches = 1; micro_batches <= 17; ++micro_batches) {
      for (const PipelineSchedule& schedule : all_schedules(ranks, micro_batches)) {
        EXPECT_EQ(failure([&] { check(schedule); }), "")
            << schedule.name << " of " << ranks << " ranks, " << schedule.chunks << " chunks, "
            << micro_batches << " micro-batches";
      }
    }
  }
}

// From |ranks| micro-batches on, as the papers state their formulas.
TEST(ScheduleTest, BubbleIsTheFormulas) {
  for (uint32_t ranks = 2; ranks <= 6; ++ranks) {
    for (uint32_t micro_batches = ranks; micro_batches <= 4 * ranks; ++micro_batches) {
      for (const PipelineSchedule& schedule : all_schedules(ranks, micro_batches)) {
        const TaskCosts costs = {1, 1, 1};
        EXPECT_NEAR(replay(schedule, costs).bubble, schedule.bubble(costs), 1e-9)
            << schedule.name << " of " << ranks << " ranks, " << schedule.chunks << " chunks, "
            << micro_batches << " micro-batches";
      }
    }
  }
}

TEST(ScheduleTest, PublishedExamples) {
  EXPECT_NEAR(one_f_one_b(4, 8).bubble(), 3.0 / 11, 1e-12);
  EXPECT_NEAR(interleaved(4, 2, 8).bubble(), 3.0 / 19, 1e-12);
  EXPECT_NEAR(zero_bubble(4, 8).bubble(), 3.0 / 27, 1e-12);
}

TEST(ScheduleTest, ZeroBubbleHoldsNoMoreThanRank0Of1f1b) {
  EXPECT_EQ(zero_bubble(4, 8).in_flight, (std::vector<uint32_t>{4, 4, 4, 4}));
  EXPECT_EQ(one_f_one_b(4, 8).in_flight, (std::vector<uint32_t>{4, 3, 2, 1}));
}

TEST(ScheduleTest, RefusesSizes) {
  EXPECT_NE(failure([] { one_f_one_b(0, 1); }).find("ranks"), std::string::npos);
  EXPECT_NE(failure([] { one_f_one_b(1, 0); }).find("micro-batches"), std::string::npos);
  EXPECT_NE(failure([] { interleaved(4, 0, 4); }).find("chunks"), std::string::npos);
  EXPECT_NE(failure([] { interleaved(4, 2, 6); }).find("multiple"), std::string::npos);
  EXPECT_NE(failure([] { zero_bubble(4, 3); }).find("fewer"), std::string::npos);
  EXPECT_NE(failure([] { make_schedule("gpipe", 2, 1, 2); }).find("zero-bubble"),
            std::string::npos);
}

// Mistakes, each found and named.
class ScheduleMistakeTest : public testing::Test {
 protected:
  std::vector<Action>& rank(uint32_t rank) { return schedule_.actions[rank]; }
  void expect_named(const std::string& part) {
    const std::string text = failure([&] { check(schedule_); });
    EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "'";
  }
  size_t find(uint32_t of_rank, const Action& action) {
    return static_cast<size_t>(std::find(rank(of_rank).begin(), rank(of_rank).end(), action) -
                               rank(of_rank).begin());
  }

  PipelineSchedule schedule_ = zero_bubble(3, 4);
};

TEST_F(ScheduleMistakeTest, DroppedMicroBatch) {
  rank(1).erase(rank(1).begin() + static_cast<ptrdiff_t>(find(1, {Task::kForward, 1, 2})));
  expect_named("rank 1 lacks the forward of micro-batch 2 in stage 1");
}
TEST_F(ScheduleMistakeTest, MissingWeightGradient) {
  rank(2).pop_back();
  expect_named("rank 2 lacks the weight gradient of micro-batch 3 in stage 2");
}
TEST_F(ScheduleMistakeTest, PassTwice) {
  rank(0).push_back({Task::kBackwardWeight, 0, 3});
  expect_named("twice");
}
TEST_F(ScheduleMistakeTest, PassOfAnotherRank) {
  rank(0)[0].stage = 1;
  expect_named("rank 0 has no forward of micro-batch 0 in stage 1");
}
TEST_F(ScheduleMistakeTest, BackwardBeforeForward) {
  std::swap(rank(2)[0], rank(2)[1]);
  expect_named("waits forever");
}
TEST_F(ScheduleMistakeTest, WeightGradientBeforeItsData) {
  const size_t data = find(0, {Task::kBackwardData, 0, 0});
  std::swap(rank(0)[data], rank(0)[data + 1]);
  expect_named("rank 0 waits forever");
}
TEST_F(ScheduleMistakeTest, WeightGradientsOutOfOrder) {
  std::swap(rank(2)[find(2, {Task::kBackwardWeight, 2, 2})],
            rank(2)[find(2, {Task::kBackwardWeight, 2, 3})]);
  expect_named("out of order");
}
TEST_F(ScheduleMistakeTest, MessagesInAnotherOrder) {
  std::swap(rank(1)[0].micro_batch, rank(1)[1].micro_batch);
  expect_named("rank 0 sends outputs in another order");
}
TEST_F(ScheduleMistakeTest, MoreMicroBatchesThanTheBound) {
  schedule_.in_flight[1] = 2;
  expect_named("rank 1 holds 3 micro-batches");
}
TEST_F(ScheduleMistakeTest, WholeAndInParts) {
  rank(0).push_back({Task::kBackward, 0, 0});
  EXPECT_NE(failure([&] { check(schedule_); }), "");
}

TEST(ReplayTest, TransfersDelayTheNextRank) {
  const PipelineSchedule schedule = one_f_one_b(2, 1);
  const Replay result = replay(schedule, TaskCosts{1, 1, 1}, /*transfer=*/0.5);
  // F, transfer, F, B, transfer, B
  EXPECT_DOUBLE_EQ(result.end, 1 + 0.5 + 1 + 2 + 0.5 + 2);
}

TEST(DivideLayersTest, EqualSpeedsAndRemainder) {
  EXPECT_EQ(divide_layers(8, std::vector<double>{1, 1, 1, 1}), (std::vector<int64_t>{2, 2, 2, 2}));
  const std::vector<int64_t> uneven = divide_layers(7, std::vector<double>{1, 1, 1});
  EXPECT_EQ(std::accumulate(uneven.begin(), uneven.end(), int64_t{0}), 7);
  EXPECT_EQ(*std::max_element(uneven.begin(), uneven.end()), 3);
}

// Against every division, for a few models.
TEST(DivideLayersTest, NoOtherDivisionEndsEarlier) {
  const std::vector<std::vector<double>> speeds = {{1, 2, 4}, {3, 1, 1}, {1, 1.7, 0.4}};
  const std::vector<double> extra = {0.5, 0, 2};
  for (const std::vector<double>& speed : speeds) {
    for (int64_t layers = 3; layers <= 14; ++layers) {
      const auto end = [&](const std::vector<int64_t>& division) {
        double latest = 0;
        for (size_t i = 0; i < 3; ++i) {
          latest = std::max(latest, (static_cast<double>(division[i]) + extra[i]) / speed[i]);
        }
        return latest;
      };
      double best = 1e9;
      for (int64_t a = 1; a <= layers - 2; ++a) {
        for (int64_t b = 1; a + b <= layers - 1; ++b)
          best = std::min(best, end({a, b, layers - a - b}));
      }
      EXPECT_NEAR(end(divide_layers(layers, speed, extra)), best, 1e-9);
    }
  }
}

TEST(DivideLayersTest, RefusesFewerLayersThanStages) {
  EXPECT_NE(failure([] {
              divide_layers(2, std::vector<double>{1, 1, 1});
            }).find("2 layers for 3"),
            std::string::npos);
  EXPECT_NE(failure([] {
              divide_layers(4, std::vector<double>{1, 0});
            }).find("speed"),
            std::string::npos);
}

}  // namespace
}  // namespace keel::parallel
