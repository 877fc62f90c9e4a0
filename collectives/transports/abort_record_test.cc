// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/abort_record.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "collectives/testing/test_segment.h"

namespace keel::testing {
namespace {

// A rank that sees a failure also gets its text, even while another rank is still writing the text.
TEST(AbortRecordTest, FailureIsNeverSeenWithoutItsText) {
  for (int round = 0; round < 300; ++round) {
    const auto segment = make_segment(2);
    AbortRecord& failures = segment->failures();
    std::atomic<bool> watching = false;
    std::string seen;
    std::thread other([&] {
      watching = true;
      while (!failures.failed()) {
      }
      seen = failures.status().text();
    });
    while (!watching) {
    }
    failures.abort(failure(KEEL_ABORTED, "rank 1 aborted"));
    other.join();
    ASSERT_EQ(seen, "rank 1 aborted") << "round " << round;
  }
}

TEST(AbortRecordTest, FirstFailureStays) {
  const auto segment = make_segment(2);
  AbortRecord& failures = segment->failures();
  EXPECT_TRUE(failures.status().ok());
  failures.abort(failure(KEEL_RANK_FAILED, "the first"));
  failures.abort(failure(KEEL_ABORTED, "the second"));
  EXPECT_EQ(failures.status().code(), KEEL_RANK_FAILED);
  EXPECT_STREQ(failures.status().text(), "the first");
}

TEST(AbortRecordTest, FirstAbsenceOfARankStays) {
  const auto segment = make_segment(3);
  AbortRecord& failures = segment->failures();
  failures.leave(1);
  failures.leave(1, AbortRecord::Absence::kDied);
  EXPECT_TRUE(failures.has_left(1));
  EXPECT_FALSE(failures.has_left(2));
  EXPECT_EQ(failures.absence_status(1).code(), KEEL_ABORTED);
  EXPECT_TRUE(failures.first_death().ok()) << "the rank left in order";
  EXPECT_FALSE(failures.failed()) << "only waits for the rank fail";
}

TEST(AbortRecordTest, DeathIsReportedWithTheNameOfTheRank) {
  const auto segment = make_segment(3);
  AbortRecord& failures = segment->failures();
  failures.leave(2, AbortRecord::Absence::kDied);
  EXPECT_STREQ(failures.first_death().text(), "rank 2 died");
  failures.name_ranks_by([](uint32_t rank) { return "number " + std::to_string(rank + 10); });
  failures.leave(1, AbortRecord::Absence::kReplaced);
  EXPECT_STREQ(failures.first_death().text(), "number 11 replaced its program (exec)");
  EXPECT_EQ(failures.first_death().code(), KEEL_RANK_FAILED);
}

// An operation that a rank finished before it left still counts, also when the wait learns of the
// absence before it looks at the operation again.
TEST(AbortRecordTest, AbsenceAbortsNoWaitThatIsOver) {
  const auto segment = make_segment(2);
  AbortRecord& failures = segment->failures();
  failures.leave(1, AbortRecord::Absence::kDied);
  const auto waits = [](uint32_t) { return true; };
  EXPECT_TRUE(failures.abort_for_absent([] { return true; }, waits));
  EXPECT_FALSE(failures.failed());
  EXPECT_FALSE(failures.abort_for_absent([] { return false; }, [](uint32_t) { return false; }));
  EXPECT_FALSE(failures.failed());
  EXPECT_FALSE(failures.abort_for_absent([] { return false; }, waits));
  EXPECT_STREQ(failures.status().text(), "rank 1 died");
}

}  // namespace
}  // namespace keel::testing
