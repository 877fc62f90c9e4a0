// SPDX-License-Identifier: Apache-2.0
#include "core/record_pool.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "core/api.h"
#include "core/stream.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

// On a chip whose work can be paused, so that finished events are known. The chip checks that no
// event is recorded or destroyed while in the queue.
class RecordPoolTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    device_ = load("fake", {{"devices", "1"}}).at(0);
    handle_ = new_stream(device_);
    ASSERT_TRUE(find_stream(handle_, &stream_).ok());
  }
  void TearDown() override {
    stream_ = nullptr;
    KeelTest::TearDown();
  }
  Ref<EventRecord> record(uint32_t flags = 0) {
    Ref<EventRecord> made;
    EXPECT_TRUE(stream_->record(flags, &made).ok());
    return made;
  }
  // Returns the identities of |count| records, each released before the next.
  std::vector<const EventRecord*> record_and_drop(size_t count, uint32_t flags = 0) {
    std::vector<const EventRecord*> made;
    for (size_t i = 0; i < count; ++i) made.push_back(record(flags).get());
    return made;
  }
  static size_t different(const std::vector<const EventRecord*>& records) {
    return std::set(records.begin(), records.end()).size();
  }
  static void wait(const Ref<EventRecord>& record) {
    EXPECT_TRUE(record->wait(Deadline::after(kTestTimeout)).ok());
  }

  // Waits without Keel's knowledge.
  void wait_for_all_natively() {
    const Ref<EventRecord> last = record();
    const keel_stream_table* table = stream_->device().stream_table();
    EXPECT_EQ(table->event_wait(last->native(), kTestTimeout), KEEL_OK);
  }

  keel_device device_ = {};
  keel_stream handle_ = {};
  Ref<Stream> stream_;
};

TEST_F(RecordPoolTest, ARecordIsGivenOutAgainOnceItIsOver) {
  Ref<EventRecord> first = record();
  const EventRecord* const before = first.get();
  const uint64_t life = first->life();
  wait(first);
  const Ref<EventRecord> other = record();
  EXPECT_NE(other.get(), before) << "somebody has it";
  first = nullptr;
  const Ref<EventRecord> again = record();
  EXPECT_EQ(again.get(), before);
  EXPECT_NE(before->life(), life);
}

TEST_F(RecordPoolTest, NotWhileItIsInTheQueue) {
  const FakePause pause;
  EXPECT_EQ(different(record_and_drop(100)), 100u);
}

TEST_F(RecordPoolTest, OneThatIsOverVouchesForAllBeforeIt) {
  std::vector<Ref<EventRecord>> records;
  std::vector<const EventRecord*> known;
  for (int i = 0; i < 10; ++i) {
    records.push_back(record());
    known.push_back(records.back().get());
  }
  wait(records.back());
  for (Ref<EventRecord>& each : records) each = nullptr;
  const FakePause pause;  // no further work completes
  EXPECT_EQ(record_and_drop(10), known) << "in the order they came back";
  EXPECT_EQ(std::count(known.begin(), known.end(), record().get()), 0);
}

// No thread has waited for these records: the plugin is asked once there is a batch.
TEST_F(RecordPoolTest, ABatchIsAskedFor) {
  std::vector<const EventRecord*> known;
  {
    const FakePause pause;
    known = record_and_drop(15);
  }
  wait_for_all_natively();  // the 16th
  const FakePause pause;
  EXPECT_EQ(record_and_drop(15), known);
  known.push_back(record().get());
  EXPECT_EQ(std::count(known.begin(), known.end(), record().get()), 0);
}

TEST_F(RecordPoolTest, FewAreEnoughForALongRun) {
  std::set<const EventRecord*> known;
  for (int round = 0; round < 100; ++round) {
    for (const EventRecord* each : record_and_drop(8)) known.insert(each);
    wait_for_all_natively();
  }
  EXPECT_LE(known.size(), 32u);
}

TEST_F(RecordPoolTest, ThoseWithTimingAreKeptApart) {
  Ref<EventRecord> timed = record(KEEL_EVENT_TIMING);
  Ref<EventRecord> plain = record();
  const EventRecord* const was_timed = timed.get();
  const EventRecord* const was_plain = plain.get();
  EXPECT_TRUE(timed->timing());
  EXPECT_FALSE(plain->timing());
  wait(plain);
  timed = nullptr;
  plain = nullptr;
  EXPECT_EQ(record().get(), was_plain);
  EXPECT_EQ(record(KEEL_EVENT_TIMING).get(), was_timed);
}

TEST_F(RecordPoolTest, RecordsComeBackOnAnyThread) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  std::vector<std::vector<Ref<EventRecord>>> shared(kThreads);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::thread> threads;
    for (auto& mine : shared) {
      for (int i = 0; i < 5; ++i) mine.push_back(record());
      threads.emplace_back([&mine] {
        for (const Ref<EventRecord>& each : mine) wait(each);
        mine.clear();
      });
    }
    const Ref<EventRecord> meanwhile = record();
    for (std::thread& thread : threads) thread.join();
  }
  std::set<const EventRecord*> known;
  for (int i = 0; i < 1000; ++i) {
    const Ref<EventRecord> made = record();
    wait(made);
    known.insert(made.get());
  }
  EXPECT_LE(known.size(), 60u);
}

// An event recorded anew releases its former record at once, unless a reference remains.
TEST_F(RecordPoolTest, AnEventGivesItsFormerRecordBack) {
  const keel_stream other = new_stream(device_);
  keel_event event = {};
  ASSERT_KEEL_OK(keel_event_create(0, &event));
  Ref<Event> found;
  ASSERT_TRUE(find_handle(Runtime::get().event_handles(), event.id, "event", &found).ok());
  std::set<const EventRecord*> known;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_KEEL_OK(keel_event_record(event, handle_));
    known.insert(found->current().get());
    if (i % 8 == 7) {
      ASSERT_KEEL_OK(keel_event_wait(event, kTestTimeout));
    }
  }
  EXPECT_LE(known.size(), 32u);

  const Ref<EventRecord> kept = found->current();
  const uint64_t life = kept->life();
  for (int i = 0; i < 100; ++i) {
    // From one stream to the other: each record returns to its own pool.
    ASSERT_KEEL_OK(keel_event_record(event, i % 2 == 0 ? other : handle_));
    EXPECT_NE(found->current().get(), kept.get());
    EXPECT_EQ(found->current()->is_on(*stream_), i % 2 != 0);
    ASSERT_KEEL_OK(keel_event_wait(event, kTestTimeout));
  }
  EXPECT_EQ(kept->life() >> 2, life >> 2);
  found = nullptr;
  EXPECT_KEEL_OK(keel_event_destroy(event));
  EXPECT_KEEL_OK(keel_stream_destroy(other));
}

// A record keeps its stream; a pool that kept the record would keep both for ever.
TEST_F(RecordPoolTest, AfterTheEndNoneIsKept) {
  Ref<EventRecord> late = record();
  record_and_drop(20);
  ASSERT_KEEL_OK(keel_stream_destroy(handle_));
  stream_ = nullptr;
  wait(late);
  EXPECT_EQ(late->state(), EventRecord::State::kDone);
  late = nullptr;  // the chip reports leftover events at its end
}

}  // namespace
}  // namespace keel::testing
