// SPDX-License-Identifier: Apache-2.0
// What a forked child sees of the memory of CPU devices.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint64_t kWords = 100'000;  // many pages

class ForkMemoryTest : public ::testing::Test {
 protected:
  void start(keel_fork_memory choice) {
    auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    options.backends = "";
    options.fork_memory = choice;
    ASSERT_KEEL_OK(keel_init(&options));
    device_ = load("cpu", {{"devices", "1"}}).at(0);
    for (const keel_memory_kind kind : {KEEL_MEMORY_DEVICE, KEEL_MEMORY_PINNED}) {
      void* pointer = nullptr;
      ASSERT_KEEL_OK(keel_alloc(device_, kind, kWords * sizeof(uint32_t), &pointer));
      auto info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
      ASSERT_KEEL_OK(keel_memory_find(device_, pointer, &info));
      auto* const words = static_cast<uint32_t*>(info.host_alias);
      if (words == nullptr) continue;  // a guarded device
      for (uint64_t i = 0; i < kWords; ++i) words[i] = static_cast<uint32_t>(i);
      memory_.push_back(words);
      pointers_.push_back(pointer);
    }
    ASSERT_FALSE(memory_.empty());
  }
  void TearDown() override {
    for (void* pointer : pointers_) EXPECT_KEEL_OK(keel_free(device_, pointer));
    EXPECT_KEEL_OK(keel_shutdown());
  }

  // Returns the exit code of a child that runs |body|.
  static int in_child(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  static bool holds(const uint32_t* words, uint32_t added) {
    for (uint64_t i = 0; i < kWords; ++i) {
      if (words[i] != i + added) return false;
    }
    return true;
  }
  // Adds 1 to each word; returns 0 if the child then reads its own writes.
  int write_in_child() {
    return in_child([&] {
      for (uint32_t* words : memory_) {
        if (!holds(words, 0)) return 1;
        for (uint64_t i = 0; i < kWords; ++i) ++words[i];
        if (!holds(words, 1)) return 2;
      }
      return 0;
    });
  }

  keel_device device_ = {};
  std::vector<uint32_t*> memory_;
  std::vector<void*> pointers_;
};

TEST_F(ForkMemoryTest, WritesOfTheChildStayItsOwnByDefault) {
  start(KEEL_FORK_PRIVATE);
  for (int child = 0; child < 2; ++child) {
    EXPECT_EQ(write_in_child(), 0);
    for (const uint32_t* words : memory_) EXPECT_TRUE(holds(words, 0));
  }
  // A child of a child.
  EXPECT_EQ(in_child([&] { return write_in_child() != 0 ? 3 : holds(memory_[0], 0) ? 0 : 4; }), 0);
  for (const uint32_t* words : memory_) EXPECT_TRUE(holds(words, 0));
}

TEST_F(ForkMemoryTest, UnmappedMemoryIsMissingInTheChild) {
  start(KEEL_FORK_UNMAPPED);
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(in_child([&] {
              for (const uint32_t* words : memory_) {
                if (::write(ends[1], words, 1) != -1 || errno != EFAULT) return 1;
              }
              return 0;
            }),
            0);
  close(ends[0]);
  close(ends[1]);
  for (const uint32_t* words : memory_) EXPECT_TRUE(holds(words, 0));
}

TEST_F(ForkMemoryTest, SharedMemoryIsWrittenByTheChild) {
  start(KEEL_FORK_SHARED);
  EXPECT_EQ(write_in_child(), 0);
  for (const uint32_t* words : memory_) EXPECT_TRUE(holds(words, 1));
}

TEST_F(ForkMemoryTest, UnknownChoiceIsRefused) {
  auto options = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  options.backends = "";
  options.fork_memory = KEEL_FORK_SHARED + 1;
  EXPECT_FAILS(KEEL_INVALID_ARGUMENT, "fork_memory", keel_init(&options));
  options.fork_memory = KEEL_FORK_PRIVATE;
  ASSERT_KEEL_OK(keel_init(&options));
}

}  // namespace
}  // namespace keel::testing
