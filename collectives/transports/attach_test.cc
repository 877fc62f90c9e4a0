// SPDX-License-Identifier: Apache-2.0
// Reads other processes, where the kernel permits; a process may always read its own child.
#include "collectives/transports/attach.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

namespace keel {
namespace {

// A forked copy of this process that sleeps: addresses here are valid there with the content at the
// fork.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ != 0) return;
    for (;;) pause();
  }
  ~Sleeper() { end(); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  pid_t pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_;
};

TEST(ReadProcess, GetsWhatIsThere) {
  std::vector<unsigned char> there(1 << 20);
  for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<unsigned char>(i * 7 >> 3);
  const std::vector<unsigned char> before = there;
  const Sleeper sleeper;
  std::fill(there.begin(), there.end(), 0);
  std::vector<unsigned char> got(there.size());
  const Status status =
      read_process(sleeper.pid(), reinterpret_cast<uint64_t>(there.data()), got.data(), got.size());
  if (status.code() == KEEL_UNAVAILABLE) GTEST_SKIP() << status.text();
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(std::memcmp(got.data(), before.data(), before.size()), 0);
}

TEST(ReadProcess, MemoryThatIsNotThereIsAFailure) {
  const Sleeper sleeper;
  char out[16] = {};
  const Status status = read_process(sleeper.pid(), 8, out, sizeof(out));
  if (status.code() == KEEL_UNAVAILABLE) GTEST_SKIP() << status.text();
  EXPECT_EQ(status.code(), KEEL_RANK_FAILED);
  EXPECT_NE(std::strstr(status.text(), "16 bytes at 0x8"), nullptr) << status.text();
}

TEST(ReadProcess, AProcessThatIsGoneIsUnavailable) {
  Sleeper sleeper;
  const pid_t pid = sleeper.pid();
  sleeper.end();
  char out[16] = {};
  EXPECT_EQ(read_process(pid, reinterpret_cast<uint64_t>(out), out, sizeof(out)).code(),
            KEEL_UNAVAILABLE);
}

}  // namespace
}  // namespace keel
