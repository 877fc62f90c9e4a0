// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/stream.h"

#include <gtest/gtest.h>

#include <atomic>

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

}  // namespace
}  // namespace keel::cpu
