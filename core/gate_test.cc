// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class GateTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
  }
  keel_device device_ = {};
  keel_gate gate_ = {};
};

TEST_P(GateTest, HoldsWorkWithItsArgumentsCopied) {
  const keel_stream stream = new_stream(device_);
  void* memory = alloc_filled(device_, {1, 1, 1, 1});
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  uint32_t value = 7;
  ASSERT_KEEL_OK(keel_fill(stream, memory, &value, sizeof(value), 16));
  value = 8;  // the pattern was copied at enqueue
  EXPECT_EQ(keel_stream_query(stream), KEEL_NOT_READY);
  EXPECT_EQ(read(device_, memory, 4), std::vector<uint32_t>(4, 1));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 4), std::vector<uint32_t>(4, 7));
}

TEST_P(GateTest, OpensOnce) {
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  EXPECT_EQ(keel_gate_open(gate_, KEEL_OK, nullptr), KEEL_FAILED_PRECONDITION);
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
}

TEST_P(GateTest, DeadlineOfAWaitLosesNothing) {
  const keel_stream stream = new_stream(device_);
  void* memory = alloc_filled(device_, {1});
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(fill(stream, memory, 2, 1));
  const keel_event event = record(stream);
  EXPECT_EQ(keel_stream_synchronize(stream, 1'000'000), KEEL_TIMED_OUT);
  EXPECT_EQ(keel_event_wait(event, 0), KEEL_TIMED_OUT);
  EXPECT_EQ(keel_device_synchronize(device_, 0), KEEL_TIMED_OUT);
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{2});
}

TEST_P(GateTest, OpenedWithAFailurePoisonsAllThatDepends) {
  const keel_stream stream = new_stream(device_);
  const keel_stream dependent = new_stream(device_);
  const keel_stream far = new_stream(device_);
  const keel_stream bystander = new_stream(device_);
  void* memory = alloc_filled(device_, {1});
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  const keel_event event = record(stream);
  ASSERT_KEEL_OK(keel_stream_wait_event(dependent, event));
  ASSERT_KEEL_OK(fill(dependent, memory, 2, 1));
  const keel_event next = record(dependent);
  ASSERT_KEEL_OK(keel_stream_wait_event(far, next));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_RANK_FAILED, "rank 3 went away"));
  for (keel_stream failed : {far, dependent, stream}) {
    EXPECT_EQ(keel_stream_synchronize(failed, kTestTimeout), KEEL_RANK_FAILED);
    EXPECT_NE(std::string(keel_last_error()).find("rank 3 went away"), std::string::npos);
    EXPECT_EQ(keel_stream_query(failed), KEEL_RANK_FAILED);
  }
  EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_RANK_FAILED);
  EXPECT_EQ(keel_event_query(next), KEEL_RANK_FAILED);
  EXPECT_EQ(fill(dependent, memory, 3, 1), KEEL_STREAM_FAILED);
  EXPECT_KEEL_OK(keel_stream_synchronize(bystander, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{1}) << "dropped work ran";
  for (keel_stream failed : {stream, dependent, far}) {
    EXPECT_KEEL_OK(keel_stream_recover(failed, kTestTimeout));
    EXPECT_KEEL_OK(keel_stream_synchronize(failed, kTestTimeout));
  }
  EXPECT_EQ(keel_event_query(event), KEEL_RANK_FAILED) << "the past does not recover";
  ASSERT_KEEL_OK(fill(dependent, memory, 4, 1));
  EXPECT_KEEL_OK(keel_stream_synchronize(dependent, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{4});
}

TEST_P(GateTest, QueryTellsTheDeadlineOfAWaitFromThatOfTheWork) {
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  EXPECT_EQ(keel_stream_synchronize(stream, 0), KEEL_TIMED_OUT);
  EXPECT_EQ(keel_stream_query(stream), KEEL_NOT_READY);
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_TIMED_OUT, "rank 3 did not call in time"));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_TIMED_OUT);
  EXPECT_EQ(keel_stream_query(stream), KEEL_TIMED_OUT);
  EXPECT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
}

TEST_P(GateTest, RefusedCallIsToldFromFailedStream) {
  const keel_stream stream = new_stream(device_);
  void* const memory = alloc(device_, 8);
  EXPECT_EQ(fill(stream, memory, 7, 3), KEEL_OUT_OF_RANGE);
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout)) << "the call alone was refused";
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "the disk is full"));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_EQ(fill(stream, memory, 7, 2), KEEL_STREAM_FAILED);
  EXPECT_EQ(keel_stream_query(stream), KEEL_DATA_LOSS);
  EXPECT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
}

TEST_P(GateTest, DestroyedClosedItCancels) {
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(keel_gate_destroy(gate_));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_CANCELLED);
  EXPECT_EQ(keel_gate_open(gate_, KEEL_OK, nullptr), KEEL_INVALID_HANDLE);
}

TEST_P(GateTest, AThousandOperationsOpenedInRandomOrder) {
  constexpr uint32_t kStreams = 8;
  constexpr uint32_t kOperations = 1000;
  std::vector<keel_stream> streams;
  std::vector<void*> logs;  // word i of a stream's log: the step that wrote it
  for (uint32_t i = 0; i < kStreams; ++i) {
    streams.push_back(new_stream(device_));
    logs.push_back(alloc_filled(device_, std::vector<uint32_t>(kOperations, 0)));
  }
  std::vector<keel_gate> gates(kOperations);
  std::vector<uint32_t> steps(kStreams, 0);
  keel_event previous = {};
  for (uint32_t i = 0; i < kOperations; ++i) {
    const uint32_t s = i % kStreams;
    ASSERT_KEEL_OK(keel_gate_create(&gates[i]));
    ASSERT_KEEL_OK(keel_stream_wait_gate(streams[s], gates[i]));
    if (i % 3 == 0 && previous.id != 0) {
      ASSERT_KEEL_OK(keel_stream_wait_event(streams[s], previous));
    }
    // Each step overwrites all later words: only the right order leaves 1, 2, 3...
    auto* log = static_cast<uint32_t*>(logs[s]) + steps[s];
    ASSERT_KEEL_OK(fill(streams[s], log, steps[s] + 1, kOperations - steps[s]));
    ++steps[s];
    if (i % 5 == 0) previous = record(streams[s]);
  }
  std::vector<uint32_t> order(kOperations);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(20261120));
  std::vector<std::thread> openers;
  for (uint32_t t = 0; t < 4; ++t) {
    openers.emplace_back([&, t] {
      for (uint32_t i = t; i < kOperations; i += 4) {
        EXPECT_KEEL_OK(keel_gate_open(gates[order[i]], KEEL_OK, nullptr));
      }
    });
  }
  for (auto& opener : openers) opener.join();
  for (uint32_t s = 0; s < kStreams; ++s) {
    ASSERT_KEEL_OK(keel_stream_synchronize(streams[s], kTestTimeout));
    std::vector<uint32_t> expected(steps[s]);
    std::iota(expected.begin(), expected.end(), 1);
    EXPECT_EQ(read(device_, logs[s], steps[s]), expected);
  }
}

TEST_P(GateTest, DestroyingAStreamCancelsWhatItHolds) {
  const keel_stream stream = new_stream(device_);
  const keel_stream dependent = new_stream(device_);
  void* memory = alloc_filled(device_, {1});
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(fill(stream, memory, 2, 1));
  const keel_event event = record(stream);
  ASSERT_KEEL_OK(keel_stream_wait_event(dependent, event));
  EXPECT_KEEL_OK(keel_stream_destroy(stream));
  EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_CANCELLED);
  EXPECT_EQ(keel_stream_synchronize(dependent, kTestTimeout), KEEL_CANCELLED);
  EXPECT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{1});
}

INSTANTIATE_TEST_SUITE_P(Backends, GateTest, ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
