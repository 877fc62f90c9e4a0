// SPDX-License-Identifier: Apache-2.0
#include "base/ipc/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include "base/ipc/poll.h"

namespace keel::sockets {
namespace {

constexpr std::chrono::seconds kLong{60};

SocketAddress own_name() {
  return SocketAddress::named("keel-socket-test-" + std::to_string(getpid()));
}

bool is_readable(const FileDescriptor& socket) {
  return poll_until(socket.get(), POLLIN, std::chrono::steady_clock::now() + kLong) > 0;
}

// Listens at |address|, connects and accepts.
void connect_both(SocketAddress address, int type, FileDescriptor* out_one,
                  FileDescriptor* out_other) {
  FileDescriptor listening;
  ASSERT_EQ(listen(address, type | SOCK_NONBLOCK, &listening), 0);
  ASSERT_EQ(own_address(listening.get(), &address), 0);
  FileDescriptor none;
  EXPECT_EQ(accept(listening.get(), 0, &none), EAGAIN);
  ASSERT_EQ(connect(address, type, out_one), 0);
  ASSERT_TRUE(is_readable(listening));
  ASSERT_EQ(accept(listening.get(), 0, out_other), 0);
}

TEST(SocketTest, ProcessesOfOneHostMeetAtAName) {
  FileDescriptor one;
  FileDescriptor other;
  ASSERT_NO_FATAL_FAILURE(connect_both(own_name(), SOCK_SEQPACKET, &one, &other));
  Peer peer;
  ASSERT_EQ(peer_of(one.get(), &peer), 0);
  EXPECT_EQ(peer.pid, getpid());
  EXPECT_EQ(peer.uid, geteuid());
  for (const FileDescriptor* each : {&one, &other}) {
    EXPECT_NE(fcntl(each->get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(SocketTest, TakenNameAndAbsentListenerAreErrors) {
  FileDescriptor first;
  FileDescriptor second;
  ASSERT_EQ(listen(own_name(), SOCK_STREAM, &first), 0);
  EXPECT_EQ(listen(own_name(), SOCK_STREAM, &second), EADDRINUSE);
  first = FileDescriptor();
  EXPECT_EQ(connect(own_name(), SOCK_STREAM, &second), ECONNREFUSED);
  EXPECT_FALSE(second);
  ASSERT_EQ(open(AF_UNIX, SOCK_STREAM, &second), 0);
  EXPECT_EQ(connect(second.get(), SocketAddress()), EINVAL);
}

TEST(SocketTest, TcpMovesPartsAndRangesInOrder) {
  SocketAddress address;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  FileDescriptor one;
  FileDescriptor other;
  ASSERT_NO_FATAL_FAILURE(connect_both(address, SOCK_STREAM, &one, &other));
  std::string first = "ab";
  std::string second = "cde";
  const iovec parts[] = {{first.data(), first.size()}, {second.data(), second.size()}};
  ASSERT_EQ(send(one.get(), parts), 5);
  ASSERT_TRUE(send_all(one.get(), "fg", 2));
  std::array<char, 7> got = {};
  ASSERT_TRUE(receive_all(other.get(), got.data(), got.size()));
  EXPECT_EQ(std::string(got.data(), got.size()), "abcdefg");
}

TEST(SocketTest, RefusedTcpConnectionIsAPendingError) {
  SocketAddress address;
  FileDescriptor listening;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  ASSERT_EQ(listen(address, SOCK_STREAM, &listening), 0);
  ASSERT_EQ(own_address(listening.get(), &address), 0);
  listening = FileDescriptor();
  FileDescriptor socket;
  ASSERT_EQ(open(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, &socket), 0);
  int error = connect(socket.get(), address);
  if (error == EINPROGRESS) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    ASSERT_EQ(poll_until(socket.get(), POLLOUT, deadline), 1);
    error = pending_error(socket.get());
  }
  EXPECT_EQ(error, ECONNREFUSED);
}

TEST(SocketTest, SendAllWaitsForAReader) {
  FileDescriptor one;
  FileDescriptor other;
  ASSERT_EQ(open_pair(SOCK_STREAM, &one, &other), 0);
  const std::string sent(8 << 20, 'x');  // more than a socket buffers
  std::thread writer([&] {
    EXPECT_TRUE(send_all(one.get(), sent.data(), sent.size()));
    one = FileDescriptor();
  });
  std::string got(sent.size(), '\0');
  EXPECT_TRUE(receive_all(other.get(), got.data(), got.size()));
  writer.join();
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(receive_all(other.get(), got.data(), 1));
  EXPECT_EQ(errno, 0);
  // No signal ends this process.
  EXPECT_FALSE(send_all(other.get(), sent.data(), 1));
  EXPECT_EQ(errno, EPIPE);
}

class PacketTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(open_pair(SOCK_SEQPACKET, &one_, &other_), 0); }

  ssize_t receive_here() {
    const iovec part = {bytes_.data(), bytes_.size()};
    return receive_packet(other_.get(), {&part, 1}, &descriptors_, &flags_, MSG_DONTWAIT);
  }

  FileDescriptor one_;
  FileDescriptor other_;
  std::array<char, 4> bytes_ = {};
  const iovec word_ = {const_cast<char*>("word"), 4};
  std::vector<FileDescriptor> descriptors_;
  int flags_ = 0;
};

TEST_F(PacketTest, DescriptorsArriveAsCopies) {
  EXPECT_EQ(receive_here(), -1);
  EXPECT_EQ(errno, EAGAIN);
  const std::array<int, 2> sent = {one_.get(), other_.get()};
  ASSERT_EQ(send_packet(one_.get(), {&word_, 1}, sent), 4);
  ASSERT_EQ(receive_here(), 4);
  EXPECT_EQ(flags_ & (MSG_TRUNC | MSG_CTRUNC), 0);
  ASSERT_EQ(descriptors_.size(), 2u);
  EXPECT_NE(fcntl(descriptors_[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(send_packet(descriptors_[0].get(), {&word_, 1}, {}), 4);
  ASSERT_EQ(receive_here(), 4);
  EXPECT_TRUE(descriptors_.empty());
}

TEST_F(PacketTest, TooManyDescriptorsAreNotSent) {
  const std::vector<int> many(kMostDescriptors + 1, one_.get());
  EXPECT_EQ(send_packet(one_.get(), {&word_, 1}, many), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(PacketTest, LongPacketIsCut) {
  ASSERT_EQ(send(one_.get(), "words", 5), 5);
  EXPECT_EQ(receive_here(), 4);
  EXPECT_NE(flags_ & MSG_TRUNC, 0);
}

}  // namespace
}  // namespace keel::sockets
