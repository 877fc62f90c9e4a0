// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/wait_context.h"

#include <gtest/gtest.h>

#include <atomic>

#include "core/api.h"
#include "core/observer.h"
#include "core/stream.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// Counts the records that the host saw done. Observers live for ever.
class SeenDone final : public Observer {
 public:
  void host_saw_done(uint64_t /*serial*/) override { ++count; }
  std::atomic<int> count{0};
};

using WaitContextRecordTest = KeelTest;

// Without the report, the race detector takes the work that the wait was for to be unordered.
TEST_F(WaitContextRecordTest, ReportsARecordThatEndsAtTheEndOfASlice) {
  static SeenDone& seen = *new SeenDone;
  const keel_device device = load("fake", {{"devices", "1"}, {"late_queries", "1"}}).at(0);
  const keel_stream handle = new_stream(device);
  Ref<Stream> stream;
  ASSERT_TRUE(find_stream(handle, &stream).ok());
  set_observer(ObserverSlot::kProfiler, &seen);
  Ref<EventRecord> record;
  ASSERT_TRUE(stream->record(0, &record).ok());
  // Once a later record is done, so is this one; its first query still answers that it is not.
  ASSERT_KEEL_OK(keel_event_wait(KeelTest::record(handle), kTestTimeout));
  seen.count = 0;
  const std::atomic<bool> never{false};
  WaitContext wait_context(/*timeout_ns=*/0, never);
  EXPECT_TRUE(wait_context.wait(record).ok());
  EXPECT_EQ(seen.count, 1);
  set_observer(ObserverSlot::kProfiler, nullptr);
}

}  // namespace
}  // namespace keel::testing
