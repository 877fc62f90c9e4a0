// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/control_segment.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace {

using keel::ControlSegment;
using keel::FileDescriptor;
using keel::Status;

// A rank that sees a failure also gets its text, even while another rank is still writing the text.
TEST(ControlSegment, AFailureIsNeverSeenWithoutItsText) {
  for (int round = 0; round < 300; ++round) {
    FileDescriptor file;
    std::unique_ptr<ControlSegment> segment;
    ASSERT_TRUE(ControlSegment::create(2, false, &file).ok());
    ASSERT_TRUE(ControlSegment::map(file, &segment).ok());
    std::atomic<bool> watching = false;
    std::string seen;
    std::thread other([&] {
      watching = true;
      while (!segment->failed()) {
      }
      seen = segment->failure_status().text();
    });
    while (!watching) {
    }
    segment->abort(keel::failure(KEEL_ABORTED, "rank 1 aborted"));
    other.join();
    ASSERT_EQ(seen, "rank 1 aborted") << "round " << round;
  }
}

// A rank that learns from another rank of its process that all are done must also see their reads
// as done: it overwrites the descriptors next. Seen by the thread sanitizer.
TEST(ControlSegment, WhoIsToldThatAllAreDoneMayOverwriteWhatTheyRead) {
  FileDescriptor file;
  std::unique_ptr<ControlSegment> segment;
  ASSERT_TRUE(ControlSegment::create(2, false, &file).ok());
  ASSERT_TRUE(ControlSegment::map(file, &segment).ok());
  constexpr uint64_t kNext = ControlSegment::kDescriptors;  // takes the place of operation 0
  std::atomic<bool> is_told = false;
  uint32_t flags = 0;
  std::thread reader([&] {
    flags = segment->post(0, 0).flags;
    segment->publish_done(1, 0, /*urgent=*/false);
  });
  std::thread teller([&] {
    segment->publish_done(0, 0, /*urgent=*/false);
    while (!segment->has_room(kNext)) {
    }
    is_told.store(true, std::memory_order_relaxed);
  });
  while (!is_told.load(std::memory_order_relaxed)) {
  }
  ASSERT_TRUE(segment->has_room(kNext));
  segment->post(0, kNext).flags = 1;
  reader.join();
  teller.join();
  EXPECT_EQ(flags, 0u);
}

// Four billion calls of sched_yield() take longer than a test may.
TEST(ControlSegment, OversubscribedWaitEndsItsSpinAtAFailure) {
  FileDescriptor file;
  std::unique_ptr<ControlSegment> segment;
  ASSERT_TRUE(ControlSegment::create(2, /*oversubscribed=*/true, &file).ok());
  ASSERT_TRUE(ControlSegment::map(file, &segment).ok());
  segment->publish_ahead(0, 0);
  std::thread other([&] { segment->abort(keel::failure(KEEL_ABORTED, "rank 1 aborted")); });
  EXPECT_FALSE(segment->poll_published(0, 0, UINT32_MAX, 0));
  other.join();
}

}  // namespace
