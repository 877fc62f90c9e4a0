// SPDX-License-Identifier: Apache-2.0
#include "conformance/leftovers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ipc/file_descriptor.h"

namespace keel::conformance {

namespace {

// The kernel takes a while to free the memory of a killed process, which is there meanwhile.
TEST(LeftoversTest, NameAProcessOnceThatTakesLongToEnd) {
  constexpr size_t kBytes = 256 << 20;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  Leftovers leftovers;
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    (void)mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
               -1, 0);
    (void)!write(writer.get(), "x", 1);
    while (true) pause();
  }
  char ready = 0;
  ASSERT_EQ(read(reader.get(), &ready, 1), 1);
  const std::vector<std::string> ended = leftovers.end();
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].ends_with("(" + std::to_string(pid) + ")")) << ended[0];
  EXPECT_EQ(leftovers.end(), std::vector<std::string>());
}

}  // namespace

}  // namespace keel::conformance
