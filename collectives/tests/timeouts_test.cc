// SPDX-License-Identifier: Apache-2.0
// Deadlines of single operations, and waits as long as the operations may take.
#include <chrono>
#include <thread>

#include "collectives/testing/local_ranks.h"

namespace keel {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

class TimeoutsTest : public testing::LocalRanks {
 protected:
  void barrier(uint32_t rank) { EXPECT_KEEL_OK(keel_barrier(comms_[rank], streams_[rank])); }
  keel_status wait(uint32_t rank) {
    return keel_stream_synchronize(streams_[rank], KEEL_TIMEOUT_DEFAULT);
  }
};

TEST_F(TimeoutsTest, NextDeadlineIsOfOneOperation) {
  // Rank 0 comes last, so that its operation has nobody to wait for.
  EXPECT_KEEL_OK(keel_comm_timeout_next(comms_[0], 3000 * kMillisecond));
  for (uint32_t rank : {1, 2, 0}) barrier(rank);
  synchronize();
  // The operation has used the deadline up: the next one has 60 s again.
  barrier(0);
  barrier(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  EXPECT_EQ(keel_stream_query(streams_[0]), KEEL_NOT_READY);
  barrier(2);
  synchronize();
  EXPECT_KEEL_OK(keel_comm_timeout_next(comms_[0], 50 * kMillisecond));
  barrier(0);
  EXPECT_FAILS(KEEL_TIMED_OUT, "did not call", wait(0));
  recover();
}

TEST_F(TimeoutsTest, NextDeadlineIsNotOfTheOperationBefore) {
  barrier(0);
  EXPECT_KEEL_OK(keel_comm_timeout_next(comms_[0], 50 * kMillisecond));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(keel_stream_query(streams_[0]), KEEL_NOT_READY);
  barrier(1);
  barrier(2);
  synchronize();
  EXPECT_EQ(keel_comm_timeout_next(comms_[0], -1), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_comm_timeout_next({}, 1), KEEL_INVALID_HANDLE);
}

TEST_F(TimeoutsTest, WaitForOperationsOutlastsTheDefaultDeadline) {
  ASSERT_KEEL_OK(keel_shutdown());
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  const std::string backend = testing::test_backend();
  options.backends = backend.c_str();
  options.default_timeout_ns = 1000 * kMillisecond;
  memory_.clear();
  comms_ = {};
  streams_ = {};
  ASSERT_KEEL_OK(keel_init(&options));
  options_.timeout_ns = 60'000 * kMillisecond;
  SetUp();
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  for (uint32_t rank = 0; rank < kWorld - 1; ++rank) barrier(rank);
  ASSERT_KEEL_OK(keel_event_record(event, streams_[1]));
  EXPECT_EQ(wait(0), KEEL_TIMED_OUT) << "the wait ran out, not the operation";
  EXPECT_EQ(keel_stream_query(streams_[0]), KEEL_NOT_READY);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    barrier(2);
  });
  EXPECT_KEEL_OK(keel_stream_synchronize(streams_[0], KEEL_TIMEOUT_OPERATIONS));
  EXPECT_KEEL_OK(keel_event_wait(event, KEEL_TIMEOUT_OPERATIONS));
  late.join();
  EXPECT_KEEL_OK(keel_comm_finalize(comms_[0], KEEL_TIMEOUT_OPERATIONS));
  EXPECT_EQ(keel_stream_recover(streams_[0], KEEL_TIMEOUT_OPERATIONS), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(keel_stream_synchronize(streams_[0], -3), KEEL_INVALID_ARGUMENT);
  EXPECT_KEEL_OK(keel_event_destroy(event));
  TearDown();
  comms_ = {};
  streams_ = {};
  ASSERT_KEEL_OK(keel_shutdown());
  ASSERT_KEEL_OK(testing::init_test_devices(kWorld));
}

}  // namespace
}  // namespace keel
