// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/operation_board.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "collectives/testing/test_segment.h"

namespace keel::testing {
namespace {

constexpr uint64_t kNext = OperationBoard::kDescriptors;  // takes the place of operation 0

class OperationBoardTest : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Modes, OperationBoardTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "Oversubscribed" : "Dedicated";
});

TEST_P(OperationBoardTest, OperationIsMatchedOnceAllRanksHavePublished) {
  const auto segment = make_segment(3, GetParam());
  OperationBoard& board = segment->board();
  for (uint64_t sequence = 0; sequence < 3 * kNext; ++sequence) {
    ASSERT_TRUE(board.has_room(sequence));
    for (uint32_t rank = 0; rank < 3; ++rank) {
      ASSERT_FALSE(board.all_published(sequence)) << sequence;
      ASSERT_FALSE(board.poll_published(rank, sequence, /*turns=*/1, /*eager_bytes=*/0));
      if (rank == 1) {
        board.publish_ahead(rank, sequence);
      } else {
        board.publish(rank, sequence);
      }
      ASSERT_TRUE(board.has_published(rank, sequence));
      ASSERT_FALSE(board.has_published(rank, sequence + 1));
    }
    ASSERT_TRUE(board.all_published(sequence));
    ASSERT_TRUE(board.poll_published(0, sequence, /*turns=*/0, OperationBoard::kEagerBytes));
    for (uint32_t rank = 0; rank < 3; ++rank) board.publish_done(rank, sequence, false);
  }
}

TEST_P(OperationBoardTest, DescriptorIsReusedOnceAllRanksAreDone) {
  const auto segment = make_segment(2, GetParam());
  OperationBoard& board = segment->board();
  EXPECT_EQ(&board.descriptor(0, 0), &board.descriptor(0, kNext));
  board.publish(0, 0);
  board.publish(1, 0);
  board.publish_done(0, 0, /*urgent=*/false);
  EXPECT_FALSE(board.has_room(kNext));
  EXPECT_TRUE(board.is_done_with_all(0));
  EXPECT_FALSE(board.is_done_with_all(1));
  board.publish_done(1, 0, /*urgent=*/false);
  EXPECT_TRUE(board.has_room(kNext));
  EXPECT_FALSE(board.has_room(kNext + 1));
}

TEST_P(OperationBoardTest, StepIsOverOnceAllRanksHaveArrived) {
  const auto segment = make_segment(2, GetParam());
  OperationBoard& board = segment->board();
  for (uint64_t step = 1; step < 20; ++step) {
    board.arrive(1, step);
    EXPECT_TRUE(board.has_arrived(1, step));
    EXPECT_FALSE(board.has_arrived(0, step));
    EXPECT_FALSE(board.all_arrived(step)) << step;
    board.arrive(0, step);
    EXPECT_TRUE(board.all_arrived(step)) << step;
  }
}

TEST_P(OperationBoardTest, ParkedRanksWakeAtDescriptorsRoomAndSteps) {
  const auto segment = make_segment(2, GetParam());
  const std::atomic<bool> never{false};
  const auto run = [&](uint32_t rank) {
    OperationBoard& board = segment->board();
    WaitContext wait_context(/*timeout_ns=*/60'000'000'000, never);
    for (int wait = 0; wait < 100; ++wait) wait_context.spin().note(false);  // parks at once
    uint64_t step = 0;
    for (uint64_t sequence = 0; sequence < 200; ++sequence) {
      ASSERT_TRUE(board.await_room(sequence, wait_context).ok());
      board.publish(rank, sequence);
      ASSERT_TRUE(board.await_descriptors(sequence, wait_context).ok());
      board.publish_done(rank, sequence, /*urgent=*/false);
      board.arrive(rank, ++step);
      ASSERT_TRUE(board.await_step(step, wait_context).ok());
    }
  };
  std::thread other(run, 1);
  run(0);
  other.join();
}

TEST(OperationBoardUrgentTest, MatchedOperationIsUnderWayUntilAllRanksAreDone) {
  const auto segment = make_segment(2);
  OperationBoard& board = segment->board();
  EXPECT_FALSE(board.is_under_way());
  board.publish_matched(0);
  EXPECT_TRUE(board.is_under_way());
  std::thread other([&] {
    board.publish_done(0, 0, /*urgent=*/true);
    board.publish_done(1, 0, /*urgent=*/true);
  });
  board.await_over(Deadline::after(60'000'000'000));
  EXPECT_FALSE(board.is_under_way());
  other.join();
  board.publish_matched(1);
  segment->failures().abort(failure(KEEL_ABORTED, "over"));
  EXPECT_FALSE(board.is_under_way()) << "nobody yields to a communicator that has failed";
}

TEST(OperationBoardShownTest, CallIsShownUntilItIsHidden) {
  const auto segment = make_segment(2);
  OperationBoard& board = segment->board();
  Fingerprint print;
  print.count = 12;
  print.collective = 3;
  Fingerprint shown;
  EXPECT_EQ(board.shown_call(1, &shown), OperationBoard::kShownNothing);
  board.show_call(1, OperationBoard::kShownHeld, print);
  ASSERT_EQ(board.shown_call(1, &shown), OperationBoard::kShownHeld);
  EXPECT_TRUE(shown == print);
  board.hide_call(1);
  EXPECT_EQ(board.shown_call(1, &shown), OperationBoard::kShownNothing);
}

// A rank that learns from another rank of its process that all are done must also see their reads
// as done: it overwrites the descriptors next. Seen by the thread sanitizer.
TEST(OperationBoardRaceTest, RankToldThatAllAreDoneMayOverwriteWhatTheyRead) {
  const auto segment = make_segment(2);
  OperationBoard& board = segment->board();
  std::atomic<bool> is_told = false;
  uint32_t flags = 0;
  std::thread reader([&] {
    flags = board.descriptor(0, 0).flags;
    board.publish_done(1, 0, /*urgent=*/false);
  });
  std::thread teller([&] {
    board.publish_done(0, 0, /*urgent=*/false);
    while (!board.has_room(kNext)) {
    }
    is_told.store(true, std::memory_order_relaxed);
  });
  while (!is_told.load(std::memory_order_relaxed)) {
  }
  ASSERT_TRUE(board.has_room(kNext));
  board.descriptor(0, kNext).flags = 1;
  reader.join();
  teller.join();
  EXPECT_EQ(flags, 0u);
}

// Four billion calls of sched_yield() take longer than a test may.
TEST(OperationBoardFailureTest, OversubscribedPollEndsAtAFailure) {
  const auto segment = make_segment(2, /*oversubscribed=*/true);
  segment->board().publish_ahead(0, 0);
  std::thread other([&] { segment->failures().abort(failure(KEEL_ABORTED, "rank 1 aborted")); });
  EXPECT_FALSE(segment->board().poll_published(0, 0, UINT32_MAX, 0));
  other.join();
}

}  // namespace
}  // namespace keel::testing
