// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/poll.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/ipc/socket.h"

namespace keel {
namespace {

using Clock = std::chrono::steady_clock;

class PollTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sockets::open_pair(SOCK_STREAM, &one_, &other_), 0); }

  FileDescriptor one_;
  FileDescriptor other_;
};

TEST_F(PollTest, PassedDeadlineStillLooks) {
  EXPECT_EQ(poll_until(one_.get(), POLLIN, Clock::now()), 0);
  ASSERT_TRUE(sockets::send_all(other_.get(), "x", 1));
  EXPECT_EQ(poll_until(one_.get(), POLLIN, Clock::now() - std::chrono::hours(1)), 1);
  pollfd both[] = {{one_.get(), POLLIN, 0}, {other_.get(), POLLIN, 0}};
  EXPECT_EQ(poll_until(both, Clock::now()), 1);
  EXPECT_EQ(both[0].revents, POLLIN);
  EXPECT_EQ(both[1].revents, 0);
}

TEST_F(PollTest, SignalDoesNotEndAWait) {
  static std::atomic<bool> is_signalled;
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = [](int) { is_signalled = true; };
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  std::thread waiter([this] {
    EXPECT_EQ(poll_until(one_.get(), POLLIN, Clock::now() + std::chrono::minutes(1)), 1);
  });
  while (!is_signalled) {
    pthread_kill(waiter.native_handle(), SIGUSR1);
    std::this_thread::yield();
  }
  ASSERT_TRUE(sockets::send_all(other_.get(), "x", 1));
  waiter.join();
  sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace keel
