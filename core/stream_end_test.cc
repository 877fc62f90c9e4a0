// SPDX-License-Identifier: Apache-2.0
// Recovery and end of a stream, in situations that users cannot cause at will.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "core/api.h"
#include "core/gate.h"
#include "core/observer.h"
#include "core/stream.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// Acts like a collective: uses the memory of its stream until its gate opens.
class Keeper final : public GateOwner {
 public:
  void help(const Gate&, const Deadline&) override {
    ++asked_;
    if (helps_) open();
  }
  int64_t longest_ns() const override { return 0; }
  void open() {
    WakeList wake;
    gate_->open({}, wake);
    advance_all(wake);
  }
  // Holds |stream| at a gate of this keeper.
  void hold(Stream& stream) {
    gate_ = make_ref<Gate>("work", Ref<GateOwner>(this));
    Ref<EventRecord> ready;
    EXPECT_TRUE(stream.hold(gate_, &ready).ok());
  }
  void set_helps() { helps_ = true; }
  int asked() const { return asked_; }

 private:
  Ref<Gate> gate_;
  bool helps_ = false;
  std::atomic<int> asked_{0};
};

class StreamEndTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load(GetParam(), {{"devices", "1"}}).at(0);
    ASSERT_KEEL_OK(keel_gate_create(&gate_));
    handle_ = new_stream(device_);
    ASSERT_TRUE(find_stream(handle_, &stream_).ok());
    keeper_ = make_ref<Keeper>();
  }
  void TearDown() override {
    stream_ = nullptr;
    keeper_ = nullptr;
    KeelTest::TearDown();
  }
  // Enqueues a gate of the user, then one of the keeper; the first opens with a failure.
  void fail_before_the_kept_gate() {
    ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, gate_));
    keeper_->hold(*stream_);
    ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "the loader lost a batch"));
    ASSERT_EQ(keel_stream_synchronize(handle_, kTestTimeout), KEEL_DATA_LOSS);
  }

  keel_device device_ = {};
  keel_gate gate_ = {};
  keel_stream handle_ = {};
  Ref<Stream> stream_;
  Ref<Keeper> keeper_;
};

TEST_P(StreamEndTest, ARecoveryWaitsForWhoKeepsADroppedGate) {
  fail_before_the_kept_gate();
  EXPECT_EQ(keel_stream_recover(handle_, 1'000'000), KEEL_TIMED_OUT);
  EXPECT_NE(std::string(keel_last_error()).find("before work was over"), std::string::npos)
      << keel_last_error();
  EXPECT_EQ(keel_stream_synchronize(handle_, kTestTimeout), KEEL_DATA_LOSS) << "as it was";
  std::thread opener([&] { keeper_->open(); });
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
  opener.join();
  EXPECT_KEEL_OK(keel_stream_synchronize(handle_, kTestTimeout));
}

TEST_P(StreamEndTest, ARecoveryHelpsWhoKeepsADroppedGate) {
  fail_before_the_kept_gate();
  keeper_->set_helps();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
  EXPECT_EQ(keeper_->asked(), 1);
}

TEST_P(StreamEndTest, AGateThatOpenedIsNotWaitedFor) {
  for (int i = 0; i < 100; ++i) {
    keeper_->hold(*stream_);
    keeper_->open();
  }
  fail_before_the_kept_gate();
  keeper_->open();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
  EXPECT_KEEL_OK(keel_stream_synchronize(handle_, kTestTimeout));
}

// A gate without an owner delays no recovery.
TEST_P(StreamEndTest, AGateOfTheUsersIsNotWaitedFor) {
  keel_gate behind = {};
  ASSERT_KEEL_OK(keel_gate_create(&behind));
  ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, gate_));
  ASSERT_KEEL_OK(keel_stream_wait_gate(handle_, behind));
  ASSERT_KEEL_OK(keel_gate_open(gate_, KEEL_DATA_LOSS, "the loader lost a batch"));
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
}

TEST_P(StreamEndTest, ClosingWaitsForWhoKeepsTheGate) {
  keeper_->hold(*stream_);
  EXPECT_EQ(stream_->close(Deadline::after(1'000'000)).code(), KEEL_TIMED_OUT);
  std::thread opener([&] { keeper_->open(); });
  EXPECT_KEEL_OK(keel_stream_destroy(handle_));
  opener.join();
}

// Freed memory, too, is not reused earlier.
TEST_P(StreamEndTest, FreedMemoryWaitsForWhoKeepsADroppedGate) {
  constexpr uint64_t kBytes = 3 << 20;
  void* const used = alloc(device_, kBytes);
  fail_before_the_kept_gate();
  ASSERT_KEEL_OK(keel_free(device_, used));
  void* other = alloc(device_, kBytes);
  EXPECT_NE(other, used);
  keeper_->open();
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
  EXPECT_EQ(alloc(device_, kBytes), used);
}

// Otherwise each lease would begin with a new stream, and the streams would add up.
TEST_P(StreamEndTest, AFailedStreamOfTheRuntimesIsUsedAgain) {
  Device& device = stream_->device();
  Ref<Stream> leased;
  ASSERT_TRUE(device.lease_stream(&leased).ok());
  // On a busy machine the chip may exceed the recovery's deadline, but not every time.
  std::set<const Stream*> seen = {leased.get()};
  int used_again = 0;
  for (int i = 0; i < 20; ++i) {
    leased->fail_and_drop(failure(KEEL_DATA_LOSS, "the loader lost a batch"));
    device.return_stream(std::move(leased));
    ASSERT_TRUE(device.lease_stream(&leased).ok());
    EXPECT_FALSE(leased->has_failed());
    if (!seen.insert(leased.get()).second) ++used_again;
  }
  EXPECT_GT(used_again, 0);
  device.return_stream(std::move(leased));
}

// Returns whether the thread sleeps, as on a lock held by another.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");
  return name_end != std::string::npos && text.compare(name_end + 2, 1, "S") == 0;
}

// Calls recover on a second thread while the first is about to clear the failure, and returns once
// the second waits for the stream's lock.
class SecondRecovery final : public Observer {
 public:
  void host_saw_idle(Stream&) override {
    if (++recoveries_ != 1) return;
    thread_ = std::thread([this] {
      id_ = gettid();
      EXPECT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
    });
    while (id_ == 0 || !is_asleep(id_)) std::this_thread::yield();
  }
  void begin(keel_stream stream) {
    recoveries_ = 0;
    id_ = 0;
    stream_ = stream;
    set_observer(ObserverSlot::kProfiler, this);
  }
  int end() {
    if (thread_.joinable()) thread_.join();
    set_observer(ObserverSlot::kProfiler, nullptr);
    return recoveries_;
  }

 private:
  keel_stream stream_ = {};
  std::atomic<int> recoveries_{0};
  std::atomic<pid_t> id_{0};
  std::thread thread_;
};

// Otherwise work enqueued after the first recovery would be given up, and its memory reused.
TEST_P(StreamEndTest, WhatAnotherThreadRecoveredIsNotRecoveredAgain) {
  static SecondRecovery& second = *new SecondRecovery;  // observers live for ever
  stream_->fail_and_drop(failure(KEEL_DATA_LOSS, "the loader lost a batch"));
  second.begin(handle_);
  EXPECT_KEEL_OK(keel_stream_recover(handle_, kTestTimeout));
  EXPECT_EQ(second.end(), 1);
}

INSTANTIATE_TEST_SUITE_P(Backends, StreamEndTest,
                         ::testing::Values("cpu", "sim", "fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

// ---- parts on other devices ----------------------------------------------------------

// A stream of a fake device, with a copy that the CPU runs. The copy is held until the progress
// thread hears of the fake's event, which can be late.
class LegEndTest : public KeelTest, public ::testing::WithParamInterface<const char*> {
 protected:
  static constexpr size_t kWords = 4096;

  void SetUp() override {
    KeelTest::SetUp();
    fake_ = load(GetParam(), {{"devices", "1"}}).at(0);
    cpu_ = load("cpu", {{"devices", "1"}}).at(0);
    source_ = alloc_filled(fake_, pattern(kWords, 1));
    destination_ = alloc_filled(cpu_, pattern(kWords, 2));
    stream_ = new_stream(fake_);
  }
  void TearDown() override {
    let_go();
    KeelTest::TearDown();
  }

  // Keeps the progress thread busy, with work behind another event of the fake, until let_go().
  void occupy() {
    const keel_stream waiting = new_stream(cpu_);
    Ref<Stream> found;
    ASSERT_TRUE(find_stream(waiting, &found).ok());
    {
      FakePause pause;
      ASSERT_KEEL_OK(keel_stream_wait_event(waiting, record(new_stream(fake_))));
      const auto describe = [](AccessList&) {};
      const auto work = [this](keel_plugin_stream*) {
        occupied_ = true;
        occupied_.notify_all();
        let_go_.wait(false);
        return Status();
      };
      ASSERT_TRUE(found->submit("work", describe, work).ok());
    }
    occupied_.wait(false);
  }
  void let_go() {
    let_go_ = true;
    let_go_.notify_all();
  }
  void copy_late() {
    occupy();
    FakePause pause;
    ASSERT_KEEL_OK(keel_copy(stream_, cpu_, destination_, fake_, source_, kWords * 4));
  }
  // Overwrites the source on |stream|, then releases the copy if it is still held.
  void expect_copied_before(keel_stream stream) {
    ASSERT_KEEL_OK(fill(stream, source_, 7, kWords));
    ASSERT_KEEL_OK(keel_stream_synchronize(stream, kTestTimeout));
    let_go();
    ASSERT_KEEL_OK(keel_device_synchronize(cpu_, kTestTimeout));
    EXPECT_TRUE(read(cpu_, destination_, kWords) == pattern(kWords, 1));
  }

  keel_device fake_ = {};
  keel_device cpu_ = {};
  void* source_ = nullptr;
  void* destination_ = nullptr;
  keel_stream stream_ = {};
  std::atomic<bool> occupied_{false};
  std::atomic<bool> let_go_{false};
};

TEST_P(LegEndTest, DestroyingWaitsForThePartOnAnotherDevice) {
  copy_late();
  ASSERT_KEEL_OK(keel_stream_destroy(stream_));
  expect_copied_before(new_stream(fake_));
}

TEST_P(LegEndTest, ARecoveryWaitsForThePartOnAnotherDevice) {
  copy_late();
  Ref<Stream> found;
  ASSERT_TRUE(find_stream(stream_, &found).ok());
  found->fail_and_drop(failure(KEEL_DATA_LOSS, "the loader lost a batch"));
  ASSERT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
  expect_copied_before(stream_);
}

// ---- no memory to tell by -------------------------------------------------------------

// On a chip that cannot synchronize and has no event to spare.
class NoEventTest : public KeelTest {
 protected:
  static constexpr size_t kWords = 4096;

  void SetUp() override {
    KeelTest::SetUp();
    devices_ = load("fake", {{"devices", "2"}, {"refuse_events", "1"}, {"no_peer", "1"}});
    stream_ = new_stream(devices_[0]);
    ASSERT_TRUE(find_stream(stream_, &found_).ok());
  }
  void TearDown() override {
    records_.clear();
    found_ = nullptr;
    KeelTest::TearDown();
  }
  // Leaves all records of |stream| in its queue; no further one can be created.
  static void use_up_records(Stream& stream, std::vector<Ref<EventRecord>>* out_records) {
    while (true) {
      Ref<EventRecord> made;
      const Status status = stream.record(0, &made);
      if (!status.ok()) {
        EXPECT_EQ(status.code(), KEEL_OUT_OF_MEMORY) << status.text();
        return;
      }
      out_records->push_back(std::move(made));
    }
  }

  std::vector<keel_device> devices_;
  keel_stream stream_ = {};
  Ref<Stream> found_;
  std::vector<Ref<EventRecord>> records_;
};

TEST_F(NoEventTest, AStreamThatCannotBeAskedIsNotRecovered) {
  void* const used = alloc(devices_[0], 4 * kWords);
  {
    const FakePause pause;
    use_up_records(*found_, &records_);
    ASSERT_KEEL_OK(fill(stream_, used, 7, kWords));
    found_->fail_and_drop(failure(KEEL_DATA_LOSS, "the loader lost a batch"));
    EXPECT_EQ(keel_stream_recover(stream_, kTestTimeout), KEEL_OUT_OF_MEMORY);
    EXPECT_NE(std::string(keel_last_error()).find("no memory for an event"), std::string::npos)
        << keel_last_error();
    EXPECT_TRUE(found_->has_failed());
  }
  EXPECT_KEEL_OK(keel_stream_recover(stream_, kTestTimeout));
  EXPECT_KEEL_OK(keel_stream_synchronize(stream_, kTestTimeout));
}

// Otherwise its memory would be reused during a write.
TEST_F(NoEventTest, AStreamThatCannotBeAskedIsNotOver) {
  void* const used = alloc(devices_[0], 4 * kWords);
  {
    const FakePause pause;
    use_up_records(*found_, &records_);
    ASSERT_KEEL_OK(fill(stream_, used, 7, kWords));
    EXPECT_EQ(keel_stream_destroy(stream_), KEEL_OUT_OF_MEMORY);
    ASSERT_KEEL_OK(keel_free(devices_[0], used));
    EXPECT_NE(alloc(devices_[0], 4 * kWords), used);
  }
}

// The CPU's stream itself has no work to wait for.
TEST_F(NoEventTest, APartThatCannotBeAskedIsNotOver) {
  const keel_device cpu = load("cpu", {{"devices", "1"}}).at(0);
  const keel_stream whole = new_stream(cpu);
  void* const source = alloc_filled(cpu, pattern(kWords, 1));
  void* const destination = alloc(devices_[0], 4 * kWords);
  const auto copy = [&] {
    return keel_copy(whole, devices_[0], destination, cpu, source, 4 * kWords);
  };
  ASSERT_KEEL_OK(copy());  // leaves a record for the next copy
  ASSERT_KEEL_OK(keel_stream_synchronize(whole, kTestTimeout));
  Ref<Stream> stream;
  ASSERT_TRUE(find_stream(whole, &stream).ok());
  Ref<Stream> helper;
  ASSERT_TRUE(stream->helper_stream(found_->device(), &helper).ok());
  {
    const FakePause pause;
    ASSERT_KEEL_OK(copy());
    use_up_records(*helper, &records_);
    stream->fail_and_drop(failure(KEEL_DATA_LOSS, "the loader lost a batch"));
    EXPECT_EQ(keel_stream_recover(whole, kTestTimeout), KEEL_OUT_OF_MEMORY) << keel_last_error();
  }
  EXPECT_KEEL_OK(keel_stream_recover(whole, kTestTimeout));
}

INSTANTIATE_TEST_SUITE_P(Backends, LegEndTest, ::testing::Values("fake", "fake_polled"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace keel::testing
