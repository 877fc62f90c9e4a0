// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/control_segment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "collectives/bootstrap/shared_file.h"
#include "collectives/testing/test_segment.h"

namespace keel::testing {
namespace {

FileDescriptor make_file(uint32_t world) {
  FileDescriptor file;
  EXPECT_TRUE(ControlSegment::create(world, /*oversubscribed=*/false, &file).ok());
  return file;
}

void write_at(const FileDescriptor& file, off_t offset, uint64_t value) {
  ASSERT_EQ(pwrite(file.get(), &value, sizeof(value), offset), ssize_t{sizeof(value)});
}

TEST(ControlSegmentTest, MappingsOfOneFileShareTheParts) {
  const FileDescriptor file = make_file(3);
  std::unique_ptr<ControlSegment> one;
  std::unique_ptr<ControlSegment> other;
  ASSERT_TRUE(ControlSegment::map(file, &one).ok());
  ASSERT_TRUE(ControlSegment::map(file, &other).ok());
  EXPECT_EQ(other->world(), 3u);
  one->set_chunk_bytes(8192);
  EXPECT_EQ(other->chunk_bytes(), 8192u);
  one->board().publish(2, 0);
  EXPECT_TRUE(other->board().has_published(2, 0));
  one->messages().counters(1, 2).sends = 7;
  EXPECT_EQ(other->messages().counters(1, 2).sends.load(), 7u);
  one->shrink().slot(1).vote = 4;
  EXPECT_EQ(other->shrink().slot(1).vote.load(), 4u);
  one->failures().abort(failure(KEEL_ABORTED, "over"));
  EXPECT_STREQ(other->failures().status().text(), "over");
}

TEST(ControlSegmentTest, FileThatIsNoSegmentIsRefused) {
  std::unique_ptr<ControlSegment> segment;
  FileDescriptor empty;
  ASSERT_TRUE(create_shared_file("test", 1 << 20, &empty).ok());
  EXPECT_EQ(ControlSegment::map(empty, &segment).code(), KEEL_INVALID_ARGUMENT);
  FileDescriptor small;
  ASSERT_TRUE(create_shared_file("test", 64, &small).ok());
  EXPECT_EQ(ControlSegment::map(small, &segment).code(), KEEL_INVALID_ARGUMENT);
  const FileDescriptor file = make_file(2);
  constexpr off_t kWorldOffset = 16;
  for (const uint64_t world : {uint64_t{0}, uint64_t{3}, uint64_t{UINT32_MAX}}) {
    write_at(file, kWorldOffset, world);
    EXPECT_EQ(ControlSegment::map(file, &segment).code(), KEEL_INVALID_ARGUMENT) << world;
  }
  EXPECT_EQ(segment, nullptr);
}

TEST(ControlSegmentTest, AbortOfAProcessThatCannotMapIsSeenByOthers) {
  const FileDescriptor file = make_file(2);
  std::unique_ptr<ControlSegment> segment;
  ASSERT_TRUE(ControlSegment::map(file, &segment).ok());
  ControlSegment::abort_unmapped(file, failure(KEEL_RANK_FAILED, "no address space"));
  ControlSegment::abort_unmapped(file, failure(KEEL_ABORTED, "too late"));
  EXPECT_EQ(segment->failures().status().code(), KEEL_RANK_FAILED);
  EXPECT_STREQ(segment->failures().status().text(), "no address space");
}

TEST(ControlSegmentTest, AbortLeavesAnotherFileUntouched) {
  FileDescriptor other;
  ASSERT_TRUE(create_shared_file("test", 4096, &other).ok());
  ControlSegment::abort_unmapped(other, failure(KEEL_ABORTED, "over"));
  uint8_t bytes[4096] = {};
  ASSERT_EQ(pread(other.get(), bytes, sizeof(bytes), 0), ssize_t{sizeof(bytes)});
  for (const uint8_t byte : bytes) ASSERT_EQ(byte, 0);
}

TEST(ControlSegmentTest, RankIsAtRestUnlessItIsBusyInAMessageOrInAnOperation) {
  const auto segment = make_segment(2);
  EXPECT_TRUE(segment->is_at_rest(1));
  segment->failures().set_busy(1, true);
  EXPECT_FALSE(segment->is_at_rest(1));
  segment->failures().set_busy(1, false);
  segment->messages().progress(1).messages = 1;
  EXPECT_FALSE(segment->is_at_rest(1));
  segment->messages().progress(1).messages = 0;
  segment->board().publish(1, 0);
  EXPECT_FALSE(segment->is_at_rest(1));
  segment->board().publish_done(1, 0, /*urgent=*/false);
  EXPECT_TRUE(segment->is_at_rest(1));
}

}  // namespace
}  // namespace keel::testing
