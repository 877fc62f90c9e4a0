// SPDX-License-Identifier: Apache-2.0
// Events through the validation layer.
#include "core/validation/testing/checked_test.h"

namespace keel::validation::testing {
namespace {

class CheckedEvent : public CheckedTest {};

TEST_F(CheckedEvent, IsRecordedBeforeItIsUsed) {
  keel_plugin_event* const event = new_event();
  EXPECT_EQ(stream().event_query(event), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("stub:0: stream.event_query: event was never recorded"));
  EXPECT_EQ(stream().event_wait(event, 0), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("event was never recorded"));
  EXPECT_EQ(stream().stream_wait_event(stream_, event), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("event was never recorded"));
  EXPECT_EQ(stream().event_notify(
                event, [](void*, keel_status) {}, nullptr),
            KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("event was never recorded"));
  EXPECT_EQ(stub().calls["event_query"] + stub().calls["event_wait"], 0);
}

TEST_F(CheckedEvent, BelongsToOneDevice) {
  keel_plugin_event* const event = new_event();
  EXPECT_EQ(stream().event_record(event, other_stream_), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("event is of stub:0, stream of stub:1"));
  ASSERT_EQ(stream().event_record(event, stream_), KEEL_OK);
  EXPECT_EQ(stream().stream_wait_event(other_stream_, event), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("event is of stub:0, stream of stub:1"));
  EXPECT_EQ(stream().stream_wait_event(stream_, event), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("event was recorded on the same stream"));
}

TEST_F(CheckedEvent, IsRecordedAgainOnlyWhenItsRecordAndItsWaitsAreOver) {
  keel_plugin_event* const event = recorded(stream_);
  EXPECT_EQ(stream().event_record(event, stream_), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("nothing has said that its last record is done"));
  keel_plugin_stream* const waiting = new_stream();
  ASSERT_EQ(stream().stream_wait_event(waiting, event), KEEL_OK);
  ASSERT_EQ(stream().event_query(event), KEEL_OK);
  EXPECT_EQ(stream().event_record(event, stream_), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("nothing has said that the streams that wait for it are past it"));
  stream().event_destroy(event);
  EXPECT_TRUE(found("stream.event_destroy: nothing has said"));
  ASSERT_EQ(stream().synchronize(waiting, 0), KEEL_OK);
  EXPECT_EQ(stream().event_record(event, stream_), KEEL_OK);
}

TEST_F(CheckedEvent, DiesWithTheStreamItWasRecordedOn) {
  keel_plugin_stream* created = nullptr;
  ASSERT_EQ(stream().create(device_, 0, &created), KEEL_OK);
  keel_plugin_event* const event = recorded(created);
  ASSERT_EQ(stream().event_wait(event, 0), KEEL_OK);
  stream().destroy(created);
  EXPECT_TRUE(clean());
  EXPECT_EQ(stream().event_query(event), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("the stream that event was recorded on is gone"));
  EXPECT_EQ(stream().event_record(event, stream_), KEEL_OK) << "a new record is a new life";
}

TEST_F(CheckedEvent, AnswersThatContradictEarlierOnes) {
  keel_plugin_event* const first = recorded(stream_);
  keel_plugin_event* const second = recorded(stream_);
  ASSERT_EQ(stream().event_query(first), KEEL_OK);
  stub().work = KEEL_NOT_READY;
  EXPECT_EQ(stream().event_query(first), KEEL_NOT_READY);
  EXPECT_TRUE(found("the plugin says KEEL_NOT_READY of an event that was done before"));
  EXPECT_EQ(stream().event_query(second), KEEL_NOT_READY);
  EXPECT_TRUE(clean());
  stub().work = KEEL_OK;
  keel_plugin_event* const third = recorded(stream_);
  ASSERT_EQ(stream().event_wait(third, 0), KEEL_OK);
  stub().work = KEEL_NOT_READY;
  EXPECT_EQ(stream().event_query(second), KEEL_NOT_READY);
  EXPECT_TRUE(found("of an event that was done before")) << "a later one was done";

  keel_plugin_event* const failed = recorded(stream_);
  stub().work = KEEL_DATA_LOSS;
  EXPECT_EQ(stream().event_query(failed), KEEL_DATA_LOSS);
  EXPECT_TRUE(clean());
  stub().work = KEEL_OK;
  EXPECT_EQ(stream().event_query(failed), KEEL_OK);
  EXPECT_TRUE(found("the plugin says KEEL_OK of an event that failed with KEEL_DATA_LOSS"));
}

TEST_F(CheckedEvent, NotifiesExactlyOnce) {
  int called = 0;
  keel_plugin_event* const event = recorded(stream_);
  const auto count = [](void* user, keel_status) { ++*static_cast<int*>(user); };
  ASSERT_EQ(stream().event_notify(event, count, &called), KEEL_OK);
  const auto [fn, user] = stub().notifications.at(0);
  fn(user, KEEL_OK);
  EXPECT_EQ(called, 1);
  EXPECT_TRUE(clean());
  fn(user, KEEL_OK);
  EXPECT_EQ(called, 1) << "core never sees the second";
  EXPECT_TRUE(found("the plugin made a callback twice"));
  stub().work = KEEL_NOT_READY;
  EXPECT_EQ(stream().event_query(event), KEEL_NOT_READY);
  EXPECT_TRUE(found("of an event that was done before"));
}

TEST_F(CheckedEvent, ACallbackThatNeverCameIsMissedAtTheEnd) {
  const auto ignore = [](void*, keel_status) {};
  ASSERT_EQ(stream().event_notify(recorded(stream_), ignore, nullptr), KEEL_OK);
  ASSERT_EQ(stream().synchronize(stream_, 0), KEEL_OK);
  device().close(device_);
  const auto problems = take_problems();
  ASSERT_FALSE(problems.empty());
  EXPECT_NE(problems.back().find("the plugin never made the callback"), std::string::npos);
}

TEST_F(CheckedEvent, TimesBetweenTimingEventsThatAreDone) {
  uint64_t nanoseconds = 0;
  keel_plugin_event* const start = recorded(stream_, KEEL_EVENT_TIMING);
  keel_plugin_event* const end = recorded(stream_, KEEL_EVENT_TIMING);
  EXPECT_EQ(stream().event_elapsed(start, end, &nanoseconds), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(found("nothing has said that start is done"));
  ASSERT_EQ(stream().event_query(end), KEEL_OK) << "and so start is";
  EXPECT_EQ(stream().event_elapsed(start, end, &nanoseconds), KEEL_OK);
  EXPECT_EQ(stream().event_elapsed(end, start, &nanoseconds), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("end was recorded before start"));
  stub().elapsed_ns = static_cast<uint64_t>(-500);
  EXPECT_EQ(stream().event_elapsed(start, end, &nanoseconds), KEEL_OK);
  EXPECT_TRUE(found("(-500 as a signed number)"));
  stub().silent.insert("event_elapsed");
  EXPECT_EQ(stream().event_elapsed(start, end, &nanoseconds), KEEL_INTERNAL);
  EXPECT_TRUE(found("left *out_nanoseconds unset"));
  keel_plugin_event* const plain = recorded(stream_);
  ASSERT_EQ(stream().event_query(plain), KEEL_OK);
  EXPECT_EQ(stream().event_elapsed(start, plain, &nanoseconds), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("end is no timing event"));
  keel_plugin_event* event = nullptr;
  EXPECT_EQ(stream().event_create(device_, 8, &event), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(found("flags 0x8 are not KEEL_EVENT_*"));
}

}  // namespace
}  // namespace keel::validation::testing
