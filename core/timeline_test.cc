// SPDX-License-Identifier: Apache-2.0
#include "core/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/stream.h"

namespace keel {
namespace {

// Positions and order need no stream: the timeline stores this one, and never accesses it.
Stream& no_stream() {
  alignas(Stream) static std::byte place[sizeof(Stream)];
  return reinterpret_cast<Stream&>(place);
}

Ref<Timeline> timeline(uint64_t id) {
  return make_ref<Timeline>(no_stream(), id);
}

int times_busy(const Timeline& wanted) {
  int times = 0;
  Timeline::for_each_busy([&](const Timeline& busy) { times += &busy == &wanted ? 1 : 0; });
  return times;
}

TEST(TimelineTest, APositionStaysDone) {
  const Ref<Timeline> line = timeline(1);
  EXPECT_TRUE(line->is_done(0));
  EXPECT_FALSE(line->is_done(1));
  line->mark_done(5);
  line->mark_done(3);  // a later query that saw less
  EXPECT_TRUE(line->is_done(5));
  EXPECT_FALSE(line->is_done(6));
}

TEST(TimelineTest, IsListedWhileItIsBusy) {
  const Ref<Timeline> one = timeline(1);
  const Ref<Timeline> two = timeline(2);
  EXPECT_EQ(times_busy(*one), 0);
  one->advance(1);
  two->advance(1);
  one->advance(2);
  EXPECT_EQ(one->enqueued(), 2u);
  EXPECT_EQ(times_busy(*one), 1);
  EXPECT_EQ(times_busy(*two), 1);
  one->set_idle();
  one->set_idle();
  EXPECT_EQ(times_busy(*one), 0);
  EXPECT_EQ(times_busy(*two), 1);
  one->advance(3);
  EXPECT_EQ(times_busy(*one), 1);
  one->set_idle();
  two->set_idle();
}

TEST(TimelineTest, TheEndOfAStreamIsTheEndOfItsWork) {
  Ref<Timeline> line = timeline(1);
  line->advance(7);
  line->finish();
  EXPECT_TRUE(line->is_done(7));
  EXPECT_TRUE(line->is_done(UINT64_MAX));
  EXPECT_EQ(times_busy(*line), 0);
  EXPECT_FALSE(line->stream());
  WakeList wake;
  EXPECT_TRUE(line->poll(8, /*may_fence=*/true, wake));
  EXPECT_TRUE(wake.empty());
}

TEST(TimelineTest, IsBehindWhatItHasWaitedFor) {
  const Ref<Timeline> first = timeline(1);
  const Ref<Timeline> second = timeline(2);
  EXPECT_FALSE(second->is_behind(1, 1));
  second->waits_for(*first, 4, 1);
  EXPECT_TRUE(second->is_behind(1, 4));
  EXPECT_FALSE(second->is_behind(1, 5));
  EXPECT_FALSE(first->is_behind(2, 1));
  second->waits_for(*first, 3, 2);  // an older event
  EXPECT_TRUE(second->is_behind(1, 4));
  second->forget_waits();
  EXPECT_FALSE(second->is_behind(1, 1));
}

TEST(TimelineTest, TakesOverWaitsThatWereMadeBefore) {
  const Ref<Timeline> first = timeline(1);
  const Ref<Timeline> second = timeline(2);
  const Ref<Timeline> third = timeline(3);
  second->waits_for(*first, 10, /*position=*/5);
  third->waits_for(*second, 4, 1);  // before the second waited
  EXPECT_FALSE(third->is_behind(1, 1));
  third->waits_for(*second, 5, 2);
  EXPECT_TRUE(third->is_behind(1, 10));
  EXPECT_TRUE(third->is_behind(2, 5));
  // A timeline does not wait for its own positions.
  first->waits_for(*third, 2, 11);
  EXPECT_FALSE(first->is_behind(1, 1));
}

TEST(TimelineTest, RemembersTheLastEight) {
  const Ref<Timeline> line = timeline(100);
  std::vector<Ref<Timeline>> others;
  for (uint64_t id = 1; id <= 9; ++id) {
    others.push_back(timeline(id));
    line->waits_for(*others.back(), 1, /*position=*/id);
  }
  EXPECT_FALSE(line->is_behind(1, 1)) << "the oldest made room";
  for (uint64_t id = 2; id <= 9; ++id) EXPECT_TRUE(line->is_behind(id, 1)) << id;
}

TEST(TimelineTest, ThreadsMeet) {
  constexpr uint64_t kRounds = 2000;
  std::vector<Ref<Timeline>> lines = {timeline(1), timeline(2)};
  std::vector<std::thread> threads;
  for (size_t own = 0; own < lines.size(); ++own) {
    threads.emplace_back([&lines, own] {
      Timeline& line = *lines[own];
      Timeline& other = *lines[1 - own];
      for (uint64_t position = 1; position <= kRounds; ++position) {
        line.advance(position);
        line.waits_for(other, other.enqueued(), position);
        line.mark_done(position);
        line.set_idle();
      }
    });
    threads.emplace_back([] {
      for (uint64_t i = 0; i < kRounds; ++i) {
        Timeline::for_each_busy([](Timeline& busy) { EXPECT_GE(busy.enqueued(), 1u); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Ref<Timeline>& line : lines) {
    EXPECT_TRUE(line->is_done(kRounds));
    EXPECT_EQ(times_busy(*line), 0);
  }
}

}  // namespace
}  // namespace keel
