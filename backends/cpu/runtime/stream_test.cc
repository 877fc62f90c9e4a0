// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <thread>

#include "backends/cpu/runtime/device.h"

namespace keel::cpu {
namespace {

constexpr auto kNever = Clock::time_point::max();

// The plugin cannot provoke a failure of work: its kernels fail only if host memory runs out.
TEST(Stream, FailureIsStickyAndDropsWhatFollows) {
  Device device(/*cores=*/1, /*memory_limit=*/1 << 20, /*guarded=*/false);
  Stream stream(device);
  Event before(device.parking_lot(), /*timing=*/false);
  Event after(device.parking_lot(), /*timing=*/false);
  Event again(device.parking_lot(), /*timing=*/false);
  std::atomic<int> ran{0};
  auto* const counter = &ran;

  stream.enqueue([=](ThreadPool&) -> keel_status {
    ++*counter;
    return KEEL_OK;
  });
  stream.record(before);
  stream.enqueue([](ThreadPool&) -> keel_status { return KEEL_DATA_LOSS; });
  stream.record(after);
  stream.enqueue([=](ThreadPool&) -> keel_status {
    ++*counter;
    return KEEL_OK;
  });
  EXPECT_EQ(before.wait(kNever), KEEL_OK);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(after.wait(kNever), KEEL_DATA_LOSS);
    EXPECT_EQ(after.query(), KEEL_DATA_LOSS);
    EXPECT_EQ(stream.synchronize(kNever), KEEL_DATA_LOSS);
    EXPECT_EQ(stream.query(), KEEL_DATA_LOSS);
  }
  EXPECT_EQ(ran, 1);

  stream.enqueue([=](ThreadPool&) -> keel_status {
    ++*counter;
    return KEEL_OK;
  });
  stream.record(again);
  EXPECT_EQ(again.wait(kNever), KEEL_DATA_LOSS);
  keel_status heard = KEEL_OK;
  again.notify(
      {[](void* user, keel_status status) { *static_cast<keel_status*>(user) = status; }, &heard});
  EXPECT_EQ(heard, KEEL_DATA_LOSS);
  EXPECT_EQ(ran, 1);
}

TEST(Stream, AnExceptionOfWorkIsAFailureOfTheStream) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  stream.enqueue([](ThreadPool&) -> keel_status { throw std::bad_alloc(); });
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OUT_OF_MEMORY);
}

TEST(Stream, AFailureStaysOnItsStream) {
  Device device(1, 1 << 20, false);
  Stream failing(device), waiting(device);
  Event event(device.parking_lot(), false);
  failing.enqueue([](ThreadPool&) -> keel_status { return KEEL_INTERNAL; });
  failing.record(event);
  waiting.wait_for(event);
  EXPECT_EQ(waiting.synchronize(kNever), KEEL_OK);
  EXPECT_EQ(event.wait(kNever), KEEL_INTERNAL);
}

// An idle stream completes a record without waking its thread.
TEST(Stream, ARecordBehindNothingIsDoneAtOnce) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  Event first(device.parking_lot(), false);
  stream.record(first);
  EXPECT_EQ(first.query(), KEEL_OK);

  Event start(device.parking_lot(), true);
  Event end(device.parking_lot(), true);
  stream.record(start);
  stream.enqueue([](ThreadPool&) -> keel_status { return KEEL_DATA_LOSS; });
  EXPECT_EQ(stream.synchronize(kNever), KEEL_DATA_LOSS);
  stream.record(end);
  EXPECT_EQ(start.query(), KEEL_OK);
  EXPECT_EQ(end.query(), KEEL_DATA_LOSS);
  EXPECT_LT(start.completed_at(), end.completed_at());
  int heard = 0;
  end.notify({[](void* user, keel_status) { ++*static_cast<int*>(user); }, &heard});
  EXPECT_EQ(heard, 1);
}

// Behind running work, a record waits.
TEST(Stream, ARecordBehindWorkWaitsForIt) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  std::atomic<bool> go_on{false};
  auto* const gate = &go_on;
  stream.enqueue([gate](ThreadPool&) -> keel_status {
    gate->wait(false);
    return KEEL_OK;
  });
  Event event(device.parking_lot(), false);
  stream.record(event);
  EXPECT_EQ(event.query(), KEEL_NOT_READY);
  go_on = true;
  go_on.notify_one();
  EXPECT_EQ(event.wait(kNever), KEEL_OK);
}

// Work that notes the thread that runs it.
struct NotesThread {
  std::thread::id* thread;
  keel_status operator()(ThreadPool&) const {
    *thread = std::this_thread::get_id();
    return KEEL_OK;
  }
};

TEST(Stream, BriefWorkOfAnIdleStreamRunsOnTheCaller) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  std::thread::id thread;
  stream.enqueue(NotesThread{&thread}, Stream::kBrief);
  EXPECT_EQ(thread, std::this_thread::get_id());
  EXPECT_EQ(stream.query(), KEEL_OK);
  stream.enqueue(NotesThread{&thread}, Stream::kBrief + 1);
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OK);
  EXPECT_NE(thread, std::this_thread::get_id());
}

// The order of the stream holds for brief work too, and the caller goes on.
TEST(Stream, BriefWorkBehindAHoldWaitsOnTheStreamsThread) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  std::thread::id first;
  std::thread::id second;
  Event& hold = device.make_hold();
  stream.wait_for(hold);
  stream.enqueue(NotesThread{&first}, /*nanoseconds=*/0);
  EXPECT_EQ(stream.query(), KEEL_NOT_READY);
  Wakeups wakeups;
  hold.complete(KEEL_OK, &wakeups);
  wakeups.deliver(KEEL_OK);
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OK);
  EXPECT_NE(first, std::thread::id());
  EXPECT_NE(first, std::this_thread::get_id());
  stream.enqueue(NotesThread{&second}, /*nanoseconds=*/0);
  EXPECT_EQ(second, std::this_thread::get_id());
}

// The only core computes for another stream: the caller neither waits for it nor computes beside.
TEST(Stream, BriefWorkWithoutAFreeCoreIsQueued) {
  Device device(/*cores=*/1, 1 << 20, false);
  Stream busy(device);
  Stream stream(device);
  std::atomic<int> step{0};
  auto* const state = &step;
  busy.enqueue([state](ThreadPool&) -> keel_status {
    *state = 1;
    state->notify_all();
    state->wait(1);
    return KEEL_OK;
  });
  step.wait(0);
  std::thread::id thread;
  stream.enqueue(NotesThread{&thread}, /*nanoseconds=*/0);
  EXPECT_EQ(stream.query(), KEEL_NOT_READY);
  step = 2;
  step.notify_all();
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OK);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(Stream, AFailureOfBriefWorkIsSticky) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  stream.enqueue([](ThreadPool&) -> keel_status { throw std::bad_alloc(); }, /*nanoseconds=*/0);
  EXPECT_EQ(stream.query(), KEEL_OUT_OF_MEMORY);
  std::thread::id thread;
  stream.enqueue(NotesThread{&thread}, /*nanoseconds=*/0);
  EXPECT_EQ(thread, std::thread::id());
  Event event(device.parking_lot(), false);
  stream.record(event);
  EXPECT_EQ(event.query(), KEEL_OUT_OF_MEMORY);
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OUT_OF_MEMORY);
}

// The bits of a result do not depend on the thread that computes it.
TEST(Stream, BriefWorkComputesInTheModeOfTheStreamsThread) {
  Device device(1, 1 << 20, false);
  Stream stream(device);
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  int here = -1;
  int queued = -1;
  const auto work_for = [](int* out) {
    return [out](ThreadPool&) -> keel_status {
      volatile float one = 1;
      volatile float small = 1e-9f;
      *out = one + small > 1;
      return KEEL_OK;
    };
  };
  stream.enqueue(work_for(&here), /*nanoseconds=*/0);
  stream.enqueue(work_for(&queued));
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OK);
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(here, 0);
  EXPECT_EQ(queued, 0);
}

// Work runs in the order of its calls, whichever thread runs it.
TEST(Stream, BriefAndLongWorkKeepTheirOrder) {
  Device device(2, 1 << 20, false);
  Stream stream(device);
  constexpr int kTurns = 2000;
  int value = 0;
  auto* const shared = &value;
  for (int turn = 0; turn < kTurns; ++turn) {
    stream.enqueue(
        [shared, turn](ThreadPool&) -> keel_status {
          if (*shared != turn) return KEEL_DATA_LOSS;
          *shared = turn + 1;
          return KEEL_OK;
        },
        turn % 7 == 0 ? INT64_MAX : int64_t{0});
  }
  EXPECT_EQ(stream.synchronize(kNever), KEEL_OK);
  EXPECT_EQ(value, kTurns);
}

}  // namespace
}  // namespace keel::cpu
