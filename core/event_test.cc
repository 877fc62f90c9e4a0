// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

class EventTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
  }
  keel_device device_ = {};
  keel_gate gate_ = {};
};

TEST_P(EventTest, NeverRecordedCountsAsDone) {
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  EXPECT_KEEL_OK(keel_event_query(event));
  EXPECT_KEEL_OK(keel_event_wait(event, 0));
  const keel_stream stream = new_stream(device_);
  EXPECT_KEEL_OK(keel_stream_wait_event(stream, event));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
}

TEST_P(EventTest, ReRecordedWaitsKeepTheEarlierPoint) {
  const keel_stream early = new_stream(device_);
  const keel_stream late = new_stream(device_);
  const keel_stream waiter = new_stream(device_);
  const keel_event event = record(early);
  ASSERT_KEEL_OK(keel_stream_wait_event(waiter, event));
  ASSERT_KEEL_OK(keel_stream_wait_gate(late, gate_));
  ASSERT_KEEL_OK(keel_event_record(event, late));
  EXPECT_KEEL_OK(keel_stream_synchronize(waiter, kTestTimeout));
  EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
}

TEST_P(EventTest, OutlivesItsStream) {
  const keel_stream stream = new_stream(device_);
  const keel_event event = record(stream);
  ASSERT_KEEL_OK(keel_stream_destroy(stream));
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  // The device does not report the rest of the destroyed stream as a failure.
  EXPECT_KEEL_OK(keel_device_synchronize(device_, kTestTimeout));
}

TEST_P(EventTest, WaitingForAnOwnEventOrdersNothing) {
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_stream_wait_event(stream, record(stream)));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(keel_stream_wait_event(stream, record(stream)));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
}

// Streams hand over to each other thousands of times while the host never waits.
TEST_P(EventTest, LongChainsOfHandOvers) {
  const keel_stream a = new_stream(device_);
  const keel_stream b = new_stream(device_);
  void* memory = alloc_filled(device_, {0});
  ASSERT_KEEL_OK(keel_stream_wait_gate(a, gate_));
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  constexpr uint32_t kHandOvers = 20'000;
  for (uint32_t i = 1; i <= kHandOvers; ++i) {
    const keel_stream from = i % 2 == 0 ? a : b;
    const keel_stream to = i % 2 == 0 ? b : a;
    ASSERT_KEEL_OK(keel_event_record(event, to));
    ASSERT_KEEL_OK(keel_stream_wait_event(from, event));
    ASSERT_KEEL_OK(fill(from, memory, i, 1));
  }
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_stream_synchronize(a, kTestTimeout));
  ASSERT_KEEL_OK(keel_stream_synchronize(b, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 1), std::vector<uint32_t>{kHandOvers});
}

TEST_P(EventTest, ThreadsHammerOneStream) {
  const keel_stream stream = new_stream(device_);
  void* memory = alloc_filled(device_, std::vector<uint32_t>(8, 0));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      keel_event event = {};
      EXPECT_KEEL_OK(keel_event_create(0, &event));
      for (uint32_t i = 1; i <= 200; ++i) {
        EXPECT_KEEL_OK(fill(stream, static_cast<uint32_t*>(memory) + t, i, 1));
        EXPECT_KEEL_OK(keel_event_record(event, stream));
        if (i % 50 == 0) {
          EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
        }
      }
      EXPECT_KEEL_OK(keel_event_destroy(event));
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  EXPECT_EQ(read(device_, memory, 8), std::vector<uint32_t>(8, 200));
}

TEST_P(EventTest, Elapsed) {
  keel_event start = {};
  keel_event end = {};
  ASSERT_KEEL_OK(keel_event_create(KEEL_EVENT_TIMING, &start));
  ASSERT_KEEL_OK(keel_event_create(KEEL_EVENT_TIMING, &end));
  uint64_t elapsed = UINT64_MAX;
  EXPECT_EQ(keel_event_elapsed(start, end, &elapsed), KEEL_FAILED_PRECONDITION);
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(keel_event_record(start, stream));
  ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_));
  ASSERT_KEEL_OK(keel_event_record(end, stream));
  ASSERT_KEEL_OK(keel_event_wait(start, kTestTimeout));
  EXPECT_EQ(keel_event_elapsed(start, end, &elapsed), KEEL_NOT_READY);
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  ASSERT_KEEL_OK(keel_event_wait(end, kTestTimeout));
  EXPECT_KEEL_OK(keel_event_elapsed(start, end, &elapsed));
  EXPECT_LT(elapsed, static_cast<uint64_t>(kTestTimeout));
  EXPECT_EQ(keel_event_elapsed(end, start, &elapsed), KEEL_INVALID_ARGUMENT) << "the wrong way";
  EXPECT_KEEL_OK(keel_event_elapsed(end, end, &elapsed));
  EXPECT_EQ(keel_event_elapsed(start, record(stream), &elapsed), KEEL_INVALID_ARGUMENT);
}

INSTANTIATE_TEST_SUITE_P(Backends, EventTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

// ---- events behind which a stream has no work -----------------------------------------

class TrailingEventTest : public KeelTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(TrailingEventTest, IsDoneOnceItsStreamIsSynchronized) {
  const keel_stream stream = new_stream(load(GetParam(), {{"devices", "1"}}).at(0));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  for (int round = 0; round < 3; ++round) {
    keel_event event = {};
    {
      const FakePause pause;
      event = record(stream);
      EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
      EXPECT_EQ(keel_stream_query(stream), KEEL_NOT_READY);
      EXPECT_EQ(keel_stream_synchronize(stream, 1), KEEL_TIMED_OUT);
    }
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    EXPECT_KEEL_OK(keel_event_query(event));
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TrailingEventTest,
                         ::testing::Values("fake", "fake_polled", "sim_paused"),
                         [](const auto& info) { return std::string(info.param); });

using FakeEventTest = KeelTest;

// A record without references is still in the device's queue; its native event must not serve
// another record until the device has passed it.
TEST_F(FakeEventTest, RecordsInFlightAreNotReused) {
  const keel_device device = load("fake").at(0);
  const keel_stream stream = new_stream(device);
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  {
    FakePause pause;
    for (int i = 0; i < 100; ++i) ASSERT_KEEL_OK(keel_event_record(event, stream));
    EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
  }
  EXPECT_KEEL_OK(keel_event_wait(event, kTestTimeout));
}

// Across plugin instances the host forwards the event.
TEST_F(FakeEventTest, OrdersStreamsOfDifferentBackends) {
  for (const char* other : {"fake", "fake_polled", "cpu", "sim"}) {
    const keel_device a = load("fake", {{"no_alias", "1"}}).at(0);
    const keel_device b = load(other, {{"devices", "1"}}).at(0);
    const keel_stream first = new_stream(a);
    const keel_stream second = new_stream(b);
    void* memory = alloc_filled(b, {1});
    {
      FakePause pause;
      ASSERT_KEEL_OK(fill(first, alloc(a, 4), 1, 1));
      ASSERT_KEEL_OK(keel_stream_wait_event(second, record(first)));
      ASSERT_KEEL_OK(fill(second, memory, 2, 1));
      EXPECT_EQ(keel_stream_query(second), KEEL_NOT_READY);
      EXPECT_EQ(keel_stream_synchronize(second, 0), KEEL_TIMED_OUT);
    }
    EXPECT_KEEL_OK(keel_stream_synchronize(second, kTestTimeout));
    EXPECT_EQ(read(b, memory, 1), std::vector<uint32_t>{2});
  }
}

// Captures the first error containing |part| that Keel logs, on any thread.
class LoggedLine {
 public:
  explicit LoggedLine(std::string part) : part_(std::move(part)) {
    EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_ERROR, &LoggedLine::add, this));
  }
  ~LoggedLine() { EXPECT_KEEL_OK(keel_set_log(KEEL_LOG_WARNING, nullptr, nullptr)); }
  LoggedLine(const LoggedLine&) = delete;
  LoggedLine& operator=(const LoggedLine&) = delete;

  // Empty if no such line was logged within kTestTimeout.
  std::string wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::nanoseconds(kTestTimeout), [&] { return !text_.empty(); });
    return text_;
  }

 private:
  static void add(void* user, keel_log_level, const char* text) {
    LoggedLine& self = *static_cast<LoggedLine*>(user);
    const std::lock_guard lock(self.mutex_);
    if (!self.text_.empty() || std::strstr(text, self.part_.c_str()) == nullptr) return;
    self.text_ = text;
    self.changed_.notify_all();
  }

  const std::string part_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string text_;
};

// The streams of another backend proceed with the event's outcome, and Keel names the device that
// did not notify, within two seconds: the test waits for nothing else.
TEST_F(FakeEventTest, EventsWhoseNotificationIsLostAreFoundDone) {
  const char* const validate = std::getenv("KEEL_VALIDATE");
  if (validate != nullptr && std::strcmp(validate, "1") == 0) {
    GTEST_SKIP() << "the validation layer reports the lost callback itself, as an error";
  }
  const keel_device a = load("fake", {{"lose_notify", "1"}, {"fail_copy_at", "1"}}).at(0);
  const keel_device b = load("fake_polled", {{"devices", "1"}}).at(0);
  LoggedLine line("event_notify");
  const keel_stream source = new_stream(a);
  const keel_stream failing = new_stream(a);
  const keel_stream sink = new_stream(b);
  const keel_stream failed = new_stream(b);
  uint32_t word = 0;
  {
    FakePause pause;
    ASSERT_KEEL_OK(keel_stream_wait_event(sink, record(source)));
    ASSERT_KEEL_OK(keel_copy(failing, a, alloc(a, 4), KEEL_HOST, &word, 4));
    ASSERT_KEEL_OK(keel_stream_wait_event(failed, record(failing)));
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(sink, kTestTimeout));
  EXPECT_EQ(keel_stream_synchronize(failed, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_NE(line.wait().find("fake:0: event_notify called back for"), std::string::npos)
      << line.wait();
}

TEST_F(FakeEventTest, FailuresFollowTheEdgesOfOneBackend) {
  const keel_device device = load("fake", {{"fail_copy_at", "1"}}).at(0);
  const keel_stream source = new_stream(device);
  const keel_stream middle = new_stream(device);
  const keel_stream sink = new_stream(device);
  uint32_t word = 0;
  void* memory = alloc(device, 4);
  keel_event outlives = {};
  {
    FakePause pause;  // the failure happens after all is enqueued
    ASSERT_KEEL_OK(keel_copy(source, device, memory, KEEL_HOST, &word, 4));
    ASSERT_KEEL_OK(keel_stream_wait_event(middle, record(source)));
    ASSERT_KEEL_OK(keel_stream_wait_event(sink, record(middle)));
    outlives = record(sink);
  }
  EXPECT_EQ(keel_stream_synchronize(sink, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_EQ(keel_stream_synchronize(sink, kTestTimeout), KEEL_DATA_LOSS) << "it sticks";
  EXPECT_EQ(keel_stream_synchronize(middle, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_EQ(keel_stream_synchronize(source, kTestTimeout), KEEL_DATA_LOSS);
  for (keel_stream stream : {source, middle, sink}) {
    ASSERT_KEEL_OK(keel_stream_recover(stream, kTestTimeout));
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  }
  EXPECT_EQ(keel_event_wait(outlives, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_KEEL_OK(keel_stream_synchronize(sink, kTestTimeout)) << "the past failed it again";
}

// The wait and the record were held; their order in the stream follows the calls.
TEST_F(FakeEventTest, FailuresFollowEdgesThatWereHeld) {
  const keel_device device = load("fake", {{"fail_copy_at", "1"}}).at(0);
  const keel_stream source = new_stream(device);
  const keel_stream sink = new_stream(device);
  keel_gate gate = {};
  ASSERT_KEEL_OK(keel_gate_create(&gate));
  uint32_t word = 0;
  void* memory = alloc(device, 4);
  FakePause* pause = new FakePause;
  ASSERT_KEEL_OK(keel_copy(source, device, memory, KEEL_HOST, &word, 4));
  ASSERT_KEEL_OK(keel_stream_wait_gate(sink, gate));
  ASSERT_KEEL_OK(keel_stream_wait_event(sink, record(source)));
  const keel_event event = record(sink);
  for (int i = 0; i < 10; ++i) ASSERT_KEEL_OK(fill(sink, memory, 1, 1));
  ASSERT_KEEL_OK(keel_gate_open(gate, KEEL_OK, nullptr));
  delete pause;
  EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_DATA_LOSS);
}

TEST_F(FakeEventTest, RecordsBeforeARecoveryKeepTheirFailure) {
  const keel_device device = load("fake", {{"fail_copy_at", "1"}}).at(0);
  const keel_stream source = new_stream(device);
  const keel_stream sink = new_stream(device);
  uint32_t word = 0;
  void* memory = alloc(device, 4);
  FakePause* pause = new FakePause;
  ASSERT_KEEL_OK(keel_copy(source, device, memory, KEEL_HOST, &word, 4));
  const keel_event native = record(source);
  ASSERT_KEEL_OK(keel_stream_wait_event(sink, native));
  const keel_event inherited = record(sink);
  delete pause;
  ASSERT_KEEL_OK(keel_stream_recover(source, kTestTimeout));
  ASSERT_KEEL_OK(keel_stream_recover(sink, kTestTimeout));
  EXPECT_EQ(keel_event_query(inherited), KEEL_DATA_LOSS);
  EXPECT_EQ(keel_event_query(native), KEEL_DATA_LOSS);
  EXPECT_KEEL_OK(keel_stream_synchronize(source, kTestTimeout));
  EXPECT_KEEL_OK(keel_stream_synchronize(sink, kTestTimeout));
}

TEST_F(FakeEventTest, FailuresCrossBackendsAndOutliveTheStream) {
  const keel_device a = load("fake", {{"fail_copy_at", "1"}}).at(0);
  const keel_device b = load("fake_polled").at(0);
  const keel_stream source = new_stream(a);
  const keel_stream sink = new_stream(b);
  uint32_t word = 0;
  FakePause* pause = new FakePause;
  ASSERT_KEEL_OK(keel_copy(source, a, alloc(a, 4), KEEL_HOST, &word, 4));
  ASSERT_KEEL_OK(keel_stream_wait_event(sink, record(source)));
  const keel_event event = record(sink);
  delete pause;
  EXPECT_EQ(keel_event_wait(event, kTestTimeout), KEEL_DATA_LOSS);
  EXPECT_KEEL_OK(keel_stream_destroy(source));
  EXPECT_EQ(keel_stream_synchronize(sink, kTestTimeout), KEEL_DATA_LOSS);
}

TEST_F(FakeEventTest, ALostDeviceStaysLost) {
  const keel_device device = load("fake", {{"lose_at", "1"}}).at(0);
  const keel_stream stream = new_stream(device);
  uint32_t word = 0;
  void* memory = alloc(device, 4);
  ASSERT_KEEL_OK(keel_copy(stream, device, memory, KEEL_HOST, &word, 4));
  EXPECT_EQ(keel_stream_synchronize(stream, kTestTimeout), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_stream_recover(stream, kTestTimeout), KEEL_DEVICE_LOST);
  keel_stream another = {};
  EXPECT_EQ(keel_stream_create(device, 0, &another), KEEL_DEVICE_LOST);
  EXPECT_EQ(keel_alloc(device, KEEL_MEMORY_DEVICE, 4, &memory), KEEL_DEVICE_LOST);
  auto health = KEEL_STRUCT_INIT(keel_device_health, KEEL_STRUCT_DEVICE_HEALTH);
  ASSERT_KEEL_OK(keel_device_health_get(device, &health));
  EXPECT_EQ(health.ok, 0u);
}

}  // namespace
}  // namespace keel::testing
