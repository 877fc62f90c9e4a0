// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/unix_socket.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

// How many of the next recvmsg calls report an end, or a reset, ahead of the sent packet.
namespace {

int g_ends = 0;
int g_resets = 0;

}  // namespace

extern "C" ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (g_ends > 0) {
    --g_ends;
    message->msg_flags = 0;
    message->msg_controllen = 0;
    return 0;
  }
  if (g_resets > 0) {
    --g_resets;
    errno = ECONNRESET;
    return -1;
  }
  using Receive = ssize_t(int, msghdr*, int);
  static auto* const receive = reinterpret_cast<Receive*>(dlsym(RTLD_NEXT, "recvmsg"));
  return receive(socket, message, flags);
}

namespace keel {
namespace {

class UnixSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sockets::open_pair(SOCK_SEQPACKET | SOCK_NONBLOCK, &ours_, &theirs_), 0);
  }
  void TearDown() override { g_ends = g_resets = 0; }

  keel_status receive() { return receive_packet(ours_.get(), &packet_).code(); }

  FileDescriptor ours_;
  FileDescriptor theirs_;
  Packet packet_;
};

constexpr std::array<uint8_t, 3> kWords = {1, 2, 3};

TEST_F(UnixSocketTest, LastWordsAreHeardBehindAnEndOrAReset) {
  for (int* const count : {&g_ends, &g_resets}) {
    ASSERT_TRUE(send_packet(theirs_.get(), kWords, {}).ok());
    *count = 1;
    EXPECT_EQ(receive(), KEEL_OK);
    EXPECT_EQ(packet_.bytes, std::vector<uint8_t>(kWords.begin(), kWords.end()));
  }
}

TEST_F(UnixSocketTest, WhoeverHasGoneIsNotWaitedFor) {
  EXPECT_EQ(receive(), KEEL_NOT_READY);
  // An empty packet counts as the end of the connection.
  ASSERT_EQ(sockets::send(theirs_.get(), "", 0), 0);
  EXPECT_EQ(receive(), KEEL_ABORTED);
  theirs_ = FileDescriptor();
  EXPECT_EQ(receive(), KEEL_ABORTED);
}

TEST_F(UnixSocketTest, AResetOfOneThatSaidNothingIsItsEnd) {
  ASSERT_TRUE(send_packet(ours_.get(), kWords, {}).ok());
  theirs_ = FileDescriptor();  // unread
  EXPECT_EQ(receive(), KEEL_ABORTED);
}

}  // namespace
}  // namespace keel
