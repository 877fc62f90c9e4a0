// SPDX-License-Identifier: Apache-2.0
// Callbacks of keel_stream_on_done and keel_event_on_done, through keel.h.
#include <keel/comm_start.h>
#include <keel/shrink.h>
#include <keel/store.h>

#include <array>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// One call of a callback.
struct Call {
  int number = 0;
  keel_status status = KEEL_OK;
  std::string text;
  std::thread::id thread;
};

// Keeps the calls of callbacks in their order.
class Calls {
 public:
  // A callback with a number, which may run |body| as well.
  struct Callback {
    Calls* calls;
    int number;
    std::function<void()> body;
  };
  // Returns the |user| of a callback that runs |body|, then is kept.
  void* user(int number, std::function<void()> body = nullptr) {
    std::lock_guard lock(mutex_);
    return &callbacks_.emplace_back(Callback{this, number, std::move(body)});
  }
  static void call(void* user, keel_status status) {
    const Callback& callback = *static_cast<Callback*>(user);
    const std::string text = status == KEEL_OK ? "" : keel_last_error();
    if (callback.body) callback.body();
    Calls& self = *callback.calls;
    std::lock_guard lock(self.mutex_);
    self.calls_.push_back({callback.number, status, text, std::this_thread::get_id()});
    self.changed_.notify_all();
  }
  // Waits for |count| calls since the last take.
  std::vector<Call> take(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::nanoseconds(kTestTimeout),
                                  [&] { return calls_.size() >= count; }))
        << calls_.size() << " of " << count << " callbacks";
    return std::exchange(calls_, {});
  }
  size_t count() {
    std::lock_guard lock(mutex_);
    return calls_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Callback> callbacks_;
  std::vector<Call> calls_;
};

// A callback that blocks until it is released.
class Block {
 public:
  void operator()() {
    std::unique_lock lock(mutex_);
    has_begun_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return is_released_; });
  }
  void await() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return has_begun_; });
  }
  void release() {
    std::lock_guard lock(mutex_);
    is_released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_begun_ = false;
  bool is_released_ = false;
};

std::vector<int> numbers(const std::vector<Call>& calls) {
  std::vector<int> numbers;
  for (const Call& call : calls) numbers.push_back(call.number);
  return numbers;
}

class HostCallbacksTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    const auto devices = load(GetParam(), {{"devices", "2"}});
    device_ = devices.at(0);
    other_device_ = devices.at(1);
    stream_ = new_stream(device_);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
  }
  void hold(keel_stream stream) { ASSERT_KEEL_OK(keel_stream_wait_gate(stream, gate_)); }
  void open(keel_status status = KEEL_OK, const char* text = nullptr) {
    ASSERT_KEEL_OK(keel_gate_open(gate_, status, text));
  }
  keel_status on_done(keel_stream stream, int number, std::function<void()> body = nullptr) {
    return keel_stream_on_done(stream, &Calls::call, calls_.user(number, std::move(body)));
  }
  keel_status on_done(keel_event event, int number, std::function<void()> body = nullptr) {
    return keel_event_on_done(event, &Calls::call, calls_.user(number, std::move(body)));
  }
  // Ends Keel before the test does, and starts it again for TearDown.
  void restart() {
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    ASSERT_KEEL_OK(keel_init(&options));
    take_problems();
  }

  Calls calls_;
  keel_device device_ = {};
  keel_device other_device_ = {};
  keel_stream stream_ = {};
  keel_gate gate_ = {};
};

TEST_P(HostCallbacksTest, CalledOnceAfterAllEarlierWorkOnAnotherThread) {
  void* const memory = alloc_filled(device_, {1, 1});
  std::vector<uint32_t> seen(2);
  hold(stream_);
  ASSERT_KEEL_OK(fill(stream_, memory, 7, 2));
  ASSERT_KEEL_OK(keel_copy(stream_, KEEL_HOST, seen.data(), device_, memory, 8));
  uint32_t first_seen = 0;
  ASSERT_KEEL_OK(on_done(stream_, 1, [&] { first_seen = seen[0]; }));
  EXPECT_EQ(calls_.count(), 0u);
  open();
  const std::vector<Call> calls = calls_.take(1);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].status, KEEL_OK);
  EXPECT_NE(calls[0].thread, std::this_thread::get_id());
  EXPECT_EQ(first_seen, 7u);
  EXPECT_KEEL_OK(keel_shutdown());
  EXPECT_EQ(calls_.count(), 0u);
  restart();
}

TEST_P(HostCallbacksTest, IdleStreamCallsAtOnce) {
  ASSERT_KEEL_OK(on_done(stream_, 1));
  EXPECT_EQ(numbers(calls_.take(1)), std::vector<int>{1});
}

TEST_P(HostCallbacksTest, RunInTheOrderOfTheStreamOnOneThread) {
  constexpr int kCount = 500;
  void* const memory = alloc(device_, 8);
  hold(stream_);
  std::vector<int> expected;
  for (int i = 0; i < kCount; ++i) {
    if (i % 3 != 0) {
      ASSERT_KEEL_OK(fill(stream_, memory, 7, 2));
    }
    if (i == kCount / 2) open();
    ASSERT_KEEL_OK(on_done(stream_, i));
    expected.push_back(i);
  }
  const std::vector<Call> calls = calls_.take(kCount);
  EXPECT_EQ(numbers(calls), expected);
  for (const Call& call : calls) EXPECT_EQ(call.thread, calls[0].thread);
}

TEST_P(HostCallbacksTest, EventTakesItsPlaceAmongCallbacksOfTheStream) {
  void* const memory = alloc(device_, 8);
  hold(stream_);
  const keel_event event = record(stream_);
  ASSERT_KEEL_OK(fill(stream_, memory, 7, 2));
  ASSERT_KEEL_OK(on_done(stream_, 2));
  ASSERT_KEEL_OK(on_done(event, 1));
  open();
  EXPECT_EQ(numbers(calls_.take(2)), (std::vector<int>{1, 2}));
}

TEST_P(HostCallbacksTest, StreamsRunInTheOrderInWhichTheirWorkEnds) {
  const keel_stream others[] = {new_stream(device_), new_stream(other_device_)};
  keel_gate gates[2] = {};
  keel_event events[2] = {};
  Block block;
  ASSERT_KEEL_OK(on_done(stream_, 0, std::ref(block)));
  block.await();
  for (int i = 0; i < 2; ++i) {
    ASSERT_KEEL_OK(keel_gate_create(&gates[i]));
    ASSERT_KEEL_OK(keel_stream_wait_gate(others[i], gates[i]));
    events[i] = record(others[i]);
    ASSERT_KEEL_OK(on_done(events[i], i + 1));
  }
  for (int i : {1, 0}) {
    ASSERT_KEEL_OK(keel_gate_open(gates[i], KEEL_OK, nullptr));
    ASSERT_KEEL_OK(keel_event_wait(events[i], kTestTimeout));
  }
  block.release();
  EXPECT_EQ(numbers(calls_.take(3)), (std::vector<int>{0, 2, 1}));
}

TEST_P(HostCallbacksTest, ReRecordedEventKeepsTheEarlierPoint) {
  const keel_event event = record(stream_);
  ASSERT_KEEL_OK(on_done(event, 1));
  hold(stream_);
  ASSERT_KEEL_OK(keel_event_record(event, stream_));
  ASSERT_KEEL_OK(on_done(event, 2));
  EXPECT_EQ(numbers(calls_.take(1)), std::vector<int>{1});
  EXPECT_EQ(calls_.count(), 0u);
  open();
  EXPECT_EQ(numbers(calls_.take(1)), std::vector<int>{2});
}

TEST_P(HostCallbacksTest, NeverRecordedEventCountsAsDone) {
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  ASSERT_KEEL_OK(on_done(event, 1));
  EXPECT_EQ(calls_.take(1).at(0).status, KEEL_OK);
}

TEST_P(HostCallbacksTest, FailureArrivesWithStatusAndText) {
  const keel_stream behind = new_stream(other_device_);
  hold(stream_);
  const keel_event event = record(stream_);
  ASSERT_KEEL_OK(keel_stream_wait_event(behind, event));
  ASSERT_KEEL_OK(on_done(stream_, 1));
  open(KEEL_DATA_LOSS, "the disk is full");
  // The stream has failed by now or will: both are told to a callback that comes later.
  EXPECT_EQ(keel_stream_synchronize(stream_, kTestTimeout), KEEL_DATA_LOSS);
  ASSERT_KEEL_OK(on_done(stream_, 2));
  ASSERT_KEEL_OK(on_done(event, 3));
  ASSERT_KEEL_OK(on_done(behind, 4));
  for (const Call& call : calls_.take(4)) {
    EXPECT_EQ(call.status, KEEL_DATA_LOSS) << call.number;
    EXPECT_NE(call.text.find("the disk is full"), std::string::npos) << call.text;
  }
  ASSERT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
  ASSERT_KEEL_OK(on_done(stream_, 5));
  EXPECT_EQ(calls_.take(1).at(0).status, KEEL_OK);
}

TEST_P(HostCallbacksTest, OutliveTheirStreamAndEvent) {
  hold(stream_);
  const keel_event event = record(stream_);
  ASSERT_KEEL_OK(on_done(stream_, 1));
  ASSERT_KEEL_OK(on_done(event, 2));
  ASSERT_KEEL_OK(keel_event_destroy(event));
  EXPECT_EQ(calls_.count(), 0u);
  ASSERT_KEEL_OK(keel_stream_destroy(stream_));
  for (const Call& call : calls_.take(2)) EXPECT_EQ(call.status, KEEL_CANCELLED) << call.number;
}

TEST_P(HostCallbacksTest, LongCallbackDelaysLaterCallbacksAlone) {
  const keel_stream other = new_stream(other_device_);
  constexpr uint64_t kWords = 1 << 16;
  const keel_device devices[] = {device_, device_};
  const keel_stream streams[] = {stream_, new_stream(device_)};
  void* const memory[] = {alloc(device_, kWords * 4), alloc(device_, kWords * 4)};
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, nullptr, comms));
  Block block;
  ASSERT_KEEL_OK(on_done(stream_, 1, std::ref(block)));
  block.await();
  ASSERT_KEEL_OK(on_done(stream_, 2));
  for (int i = 0; i < 2; ++i) {
    ASSERT_KEEL_OK(fill(streams[i], memory[i], 7, kWords));
    ASSERT_KEEL_OK(
        keel_all_reduce(comms[i], memory[i], memory[i], kWords, KEEL_UINT32, KEEL_SUM, streams[i]));
    // The progress thread hands over from one device to the other.
    ASSERT_KEEL_OK(keel_stream_wait_event(other, record(streams[i])));
  }
  for (const keel_stream stream : streams) {
    EXPECT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(other, kTestTimeout));
  EXPECT_EQ(read(device_, memory[1], 1), std::vector<uint32_t>{14});
  EXPECT_EQ(calls_.count(), 0u);
  block.release();
  EXPECT_EQ(numbers(calls_.take(2)), (std::vector<int>{1, 2}));
  for (const keel_comm comm : comms) EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

TEST_P(HostCallbacksTest, CollectiveThatIsAbortedTellsItsCallback) {
  const keel_device devices[] = {device_, device_};
  void* const memory = alloc(device_, 1 << 20);
  keel_comm comms[2] = {};
  ASSERT_KEEL_OK(keel_comm_init_all(devices, 2, nullptr, comms));
  ASSERT_KEEL_OK(
      keel_all_reduce(comms[0], memory, memory, 1 << 18, KEEL_FLOAT32, KEEL_SUM, stream_));
  ASSERT_KEEL_OK(on_done(stream_, 1));
  EXPECT_EQ(calls_.count(), 0u);
  ASSERT_KEEL_OK(keel_comm_abort(comms[1]));
  const Call call = calls_.take(1).at(0);
  EXPECT_EQ(call.status, KEEL_ABORTED);
  EXPECT_NE(call.text.find("rank 1 aborted"), std::string::npos) << call.text;
  for (const keel_comm comm : comms) (void)keel_comm_destroy(comm);
}

TEST_P(HostCallbacksTest, WaitsAreRefusedByName) {
  const keel_event event = record(stream_);
  keel_comm comm = {};
  ASSERT_KEEL_OK(keel_comm_init_all(&device_, 1, nullptr, &comm));
  ASSERT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
  keel_unique_id id = {};
  keel_comm made = {};
  const std::vector<std::pair<std::string, std::function<keel_status()>>> waits = {
      {"keel_stream_synchronize", [&] { return keel_stream_synchronize(stream_, 0); }},
      {"keel_stream_recover", [&] { return keel_stream_recover(stream_, 0); }},
      {"keel_stream_destroy", [&] { return keel_stream_destroy(stream_); }},
      {"keel_event_wait", [&] { return keel_event_wait(event, 0); }},
      {"keel_device_synchronize", [&] { return keel_device_synchronize(device_, 0); }},
      {"keel_comm_finalize", [&] { return keel_comm_finalize(comm, 0); }},
      {"keel_comm_destroy", [&] { return keel_comm_destroy(comm); }},
      {"keel_comm_split", [&] { return keel_comm_split(comm, 0, 0, nullptr, &made); }},
      {"keel_comm_shrink", [&] { return keel_comm_shrink(comm, 0, 0, nullptr, &made); }},
      {"keel_comm_init_all", [&] { return keel_comm_init_all(&device_, 1, nullptr, &made); }},
      {"keel_comm_init_rank",
       [&] { return keel_comm_init_rank(device_, &id, 0, 1, nullptr, &made); }},
      {"keel_comm_init_store",
       [&] { return keel_comm_init_store(device_, nullptr, 0, 1, nullptr, &made); }},
      {"keel_comm_wait_ready", [&] { return keel_comm_wait_ready(comm, 0); }},
      {"keel_comm_init_env", [&] { return keel_comm_init_env(device_, nullptr, &made); }},
      {"keel_shutdown", [&] { return keel_shutdown(); }},
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_KEEL_OK(on_done(stream_, 1, [&] {
      for (const auto& [name, wait] : waits) {
        EXPECT_EQ(wait(), KEEL_FAILED_PRECONDITION) << name;
        EXPECT_EQ(std::string(keel_last_error()).rfind(name + " waits", 0), 0u)
            << keel_last_error();
      }
    }));
    calls_.take(1);
  }
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, 0));
  EXPECT_KEEL_OK(keel_comm_destroy(comm));
}

TEST_P(HostCallbacksTest, MayCallEverythingElse) {
  void* const memory = alloc(device_, 8);
  hold(stream_);
  ASSERT_KEEL_OK(fill(stream_, memory, 9, 2));
  const keel_stream other = new_stream(other_device_);
  ASSERT_KEEL_OK(on_done(other, 1, [&] {
    void* pointer = nullptr;
    EXPECT_KEEL_OK(keel_alloc(device_, KEEL_MEMORY_DEVICE, 64, &pointer));
    EXPECT_KEEL_OK(keel_free(device_, pointer));
    keel_stream own = {};
    EXPECT_KEEL_OK(keel_stream_create(device_, 0, &own));
    const keel_event event = record(stream_);
    EXPECT_EQ(keel_event_query(event), KEEL_NOT_READY);
    EXPECT_KEEL_OK(keel_stream_wait_event(own, event));
    EXPECT_KEEL_OK(keel_event_destroy(event));
    EXPECT_KEEL_OK(fill(own, memory, 7, 2));
    EXPECT_KEEL_OK(on_done(own, 2));
    EXPECT_EQ(keel_stream_query(own), KEEL_NOT_READY);
    EXPECT_KEEL_OK(keel_gate_open(gate_, KEEL_OK, nullptr));
  }));
  EXPECT_EQ(numbers(calls_.take(2)), (std::vector<int>{1, 2}));
  EXPECT_EQ(read(device_, memory, 2), std::vector<uint32_t>(2, 7));
}

TEST_P(HostCallbacksTest, ShutdownAbortsPendingOnes) {
  hold(stream_);
  ASSERT_KEEL_OK(on_done(new_stream(device_), 1));
  calls_.take(1);
  ASSERT_KEEL_OK(on_done(stream_, 2, [&] {
    uint32_t count = 0;
    EXPECT_EQ(keel_device_count(&count), KEEL_FAILED_PRECONDITION);
  }));
  ASSERT_KEEL_OK(on_done(stream_, 3));
  take_problems();
  EXPECT_KEEL_OK(keel_shutdown());
  EXPECT_EQ(calls_.count(), 2u) << "none later";
  const std::vector<Call> calls = calls_.take(2);
  EXPECT_EQ(numbers(calls), (std::vector<int>{2, 3}));
  for (const Call& call : calls) {
    EXPECT_EQ(call.status, KEEL_ABORTED);
    EXPECT_EQ(call.text, "Keel was shut down");
  }
  restart();
  device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  ASSERT_KEEL_OK(on_done(new_stream(device_), 4));
  EXPECT_EQ(numbers(calls_.take(1)), std::vector<int>{4});
}

TEST_P(HostCallbacksTest, ShutdownWaitsForARunningOneUpToTheDeadline) {
  ASSERT_KEEL_OK(keel_shutdown());
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  options.default_timeout_ns = 200'000'000;  // closing the stream below has no longer
  ASSERT_KEEL_OK(keel_init(&options));
  device_ = load(GetParam(), {{"devices", "1"}}).at(0);
  Block block;
  const keel_stream stream = new_stream(device_);
  ASSERT_KEEL_OK(on_done(stream, 1, std::ref(block)));
  block.await();
  ASSERT_KEEL_OK(on_done(stream, 2));
  EXPECT_EQ(keel_shutdown(), KEEL_TIMED_OUT);
  EXPECT_NE(std::string(keel_last_error()).find("keel_stream_on_done"), std::string::npos);
  EXPECT_EQ(calls_.count(), 0u);
  block.release();
  calls_.take(1);
  while (true) {  // 200 ms may be short on a loaded machine
    const keel_status status = keel_shutdown();
    if (status != KEEL_TIMED_OUT) {
      EXPECT_KEEL_OK(status);
      break;
    }
  }
  restart();
}

TEST_P(HostCallbacksTest, ManyThreadsRegister) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  void* const memory = alloc(device_, kThreads * 8);
  std::array<Calls, kThreads> calls;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const keel_stream stream = new_stream(t % 2 == 0 ? device_ : other_device_);
      for (int i = 0; i < kEach; ++i) {
        if (t % 2 == 0 && i % 2 == 0) {
          EXPECT_KEEL_OK(fill(stream, static_cast<char*>(memory) + 8 * t, 7, 2));
        }
        EXPECT_KEEL_OK(keel_stream_on_done(stream, &Calls::call, calls[t].user(i)));
      }
      EXPECT_KEEL_OK(keel_stream_destroy(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Calls& each : calls) {
    const std::vector<Call> made = each.take(kEach);
    ASSERT_EQ(made.size(), static_cast<size_t>(kEach));
    for (int i = 0; i < kEach; ++i) EXPECT_EQ(made[i].number, i);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, HostCallbacksTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
