// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/waiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "collectives/transports/abort_record.h"
#include "collectives/transports/wake_words.h"

namespace keel::testing {
namespace {

constexpr uint32_t kWorld = 2;
constexpr int64_t kLongNs = 60'000'000'000;

// A waiter on memory of the test.
class WaiterTest : public ::testing::TestWithParam<bool> {
 protected:
  // Waits of rank 0 for rank 1.
  template <typename Ready>
  Status await(const Ready& ready, int64_t timeout_ns = kLongNs) {
    WaitContext wait_context(timeout_ns, cancelled_);
    return waiter_.await(
        words_.changes(), ready, [](uint32_t rank) { return rank == 1; }, wait_context);
  }
  static bool never() { return false; }

  std::atomic<bool> cancelled_{false};
  WakeWords::Shared shared_words_ = {};
  WakeWords::Word messages_[kWorld] = {};
  WakeWords words_{shared_words_, messages_, kWorld};
  AbortRecord::Shared shared_failure_ = {};
  AbortRecord::RankRecord ranks_[kWorld] = {};
  AbortRecord failures_{shared_failure_, ranks_, kWorld, words_};
  Waiter waiter_{words_, failures_, WaitPolicy(GetParam())};
};
INSTANTIATE_TEST_SUITE_P(Modes, WaiterTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "Oversubscribed" : "Dedicated";
});

TEST_P(WaiterTest, ConditionEndsTheWait) {
  EXPECT_TRUE(await([] { return true; }).ok());
  std::atomic<bool> is_ready{false};
  std::thread other([&] {
    // The wait parks, and sleeps until the word is changed.
    while (!words_.any_sleeper()) std::this_thread::yield();
    is_ready = true;
    words_.wake_sleepers();
  });
  EXPECT_TRUE(await([&] { return is_ready.load(); }).ok());
  other.join();
  EXPECT_FALSE(words_.any_sleeper());
}

TEST_P(WaiterTest, SpinEndsAfterItsTurns) {
  YieldGuard::of_thread() = YieldGuard();  // the waits before may have taught it to rest
  uint32_t polls = 0;
  EXPECT_TRUE(waiter_.spin(2, [&] { return ++polls == 2; }));
  EXPECT_FALSE(waiter_.spin(2, [&] { return ++polls == 100; }));
}

// Another program has the cores.
TEST_P(WaiterTest, SpinByYieldsEndsDuringARest) {
  const uint64_t now = YieldGuard::ticks();
  for (int i = 0; i < 3; ++i) {
    YieldGuard::of_thread().note_yield(now, now + 1'000'000 * YieldGuard::kLongYield);
  }
  uint32_t polls = 0;
  EXPECT_FALSE(waiter_.spin(300, [&] {
    ++polls;
    return false;
  }));
  EXPECT_EQ(polls, GetParam() ? 1u : 300u);
  YieldGuard::of_thread() = YieldGuard();
}

TEST_P(WaiterTest, FailureEndsTheWait) {
  std::thread other([&] { failures_.abort(failure(KEEL_RANK_FAILED, "over")); });
  EXPECT_STREQ(await(never).text(), "over");
  other.join();
}

TEST_P(WaiterTest, AbsenceOfAnAwaitedRankEndsTheWait) {
  std::thread other([&] { failures_.leave(1, AbortRecord::Absence::kDied); });
  EXPECT_STREQ(await(never).text(), "rank 1 died");
  other.join();
  EXPECT_TRUE(failures_.failed());
}

TEST_P(WaiterTest, AbsenceOfAnotherRankDoesNot) {
  failures_.leave(0);
  EXPECT_EQ(await(never, /*timeout_ns=*/1'000'000).code(), KEEL_TIMED_OUT);
  EXPECT_FALSE(failures_.failed());
}

TEST_P(WaiterTest, CancellationEndsTheWait) {
  std::thread other([&] { cancelled_ = true; });
  EXPECT_EQ(await(never).code(), KEEL_ABORTED);
  other.join();
}

TEST_P(WaiterTest, LookMayAbort) {
  WaitContext wait_context(kLongNs, cancelled_);
  const Status status = waiter_.await(
      words_.messages(0), never, [](uint32_t) { return false; },
      [&] { failures_.abort(failure(KEEL_INVALID_ARGUMENT, "a cycle")); }, wait_context);
  EXPECT_STREQ(status.text(), "a cycle");
}

// The work of a whole operation goes on in the waits of its parts.
TEST_P(WaiterTest, WorkGoesOnDuringTheWaitAndMayEndIt) {
  class Work final : public BackgroundWork {
   public:
    Status advance() override {
      return ++turns < 3 ? Status() : Status(KEEL_INVALID_ARGUMENT, "the work");
    }
    int64_t slice_ns() const override { return 1000; }
    int turns = 0;
  };
  Work work;
  WaitContext operation(kLongNs, cancelled_);
  WaitContext whole(operation, work);
  WaitContext part(whole, failures_);
  const auto await_rank_one = [&](const auto& ready) {
    return waiter_.await(
        words_.changes(), ready, [](uint32_t rank) { return rank == 1; }, part);
  };
  EXPECT_TRUE(await_rank_one([&] { return work.turns == 2; }).ok());
  EXPECT_FALSE(part.has_work_failed());
  EXPECT_STREQ(await_rank_one(never).text(), "the work");
  EXPECT_TRUE(part.has_work_failed());
  EXPECT_EQ(work.turns, 3);
}

// A word that has changed since the waiter looked does not let it sleep.
TEST_P(WaiterTest, ChangeBeforeTheSleepIsNotMissed) {
  std::atomic<uint32_t>& word = words_.changes();
  const uint32_t seen = word.load();
  WakeWords::wake_changed(word);
  WakeWords::park(word, seen, Deadline::after(kLongNs));
  EXPECT_EQ(word.load(), seen + 1);
}

}  // namespace
}  // namespace keel::testing
