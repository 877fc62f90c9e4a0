// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/file_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <utility>

namespace keel {
namespace {

bool is_open(int fd) {
  return fcntl(fd, F_GETFD) >= 0;
}

int open_null() {
  return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

TEST(FileDescriptorTest, DestructorCloses) {
  const int fd = open_null();
  {
    const FileDescriptor owner(fd);
    EXPECT_TRUE(owner);
    EXPECT_EQ(owner.get(), fd);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(FileDescriptorTest, AssignmentClosesTheOldDescriptor) {
  const int first = open_null();
  const int second = open_null();
  FileDescriptor owner(first);
  owner = FileDescriptor(second);
  EXPECT_FALSE(is_open(first));
  EXPECT_TRUE(is_open(second));
  owner = FileDescriptor();
  EXPECT_FALSE(owner);
  EXPECT_FALSE(is_open(second));
}

TEST(FileDescriptorTest, ReleasePassesOwnership) {
  const int fd = open_null();
  {
    FileDescriptor owner(fd);
    FileDescriptor other(std::move(owner));
    EXPECT_EQ(other.release(), fd);
    EXPECT_EQ(other.get(), -1);
  }
  EXPECT_TRUE(is_open(fd));
  close(fd);
}

}  // namespace
}  // namespace keel
