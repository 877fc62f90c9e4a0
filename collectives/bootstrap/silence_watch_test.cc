// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/silence_watch.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/tcp_socket.h"

namespace keel {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
using Acknowledgements = SilenceWatch::Acknowledgements;

constexpr Acknowledgements all() {
  return {true, 0};
}
constexpr Acknowledgements none_for(int64_t nanoseconds) {
  return {false, nanoseconds};
}

TEST(SilenceWatchTest, LimitCountsFromTheMessage) {
  SilenceWatch watch(2 * kSecond);
  watch.note_send(10 * kSecond, all());
  EXPECT_EQ(watch.remaining_ns(11 * kSecond, none_for(5 * kSecond)), kSecond);
  EXPECT_EQ(watch.remaining_ns(12 * kSecond, none_for(5 * kSecond)), 0);
}

TEST(SilenceWatchTest, LaterMessagesDoNotProlongTheLimit) {
  SilenceWatch watch(2 * kSecond);
  watch.note_send(10 * kSecond, all());
  watch.note_send(11 * kSecond, none_for(kSecond));
  EXPECT_EQ(watch.remaining_ns(12 * kSecond, none_for(2 * kSecond)), 0);
}

TEST(SilenceWatchTest, AcknowledgementOfOlderDataStartsTheLimitAnew) {
  SilenceWatch watch(2 * kSecond);
  watch.note_send(10 * kSecond, all());
  EXPECT_EQ(watch.remaining_ns(12 * kSecond, none_for(kSecond / 2)), 3 * kSecond / 2);
}

TEST(SilenceWatchTest, ProcessThatRunsLateAccusesNobody) {
  SilenceWatch watch(2 * kSecond);
  watch.note_send(10 * kSecond, all());
  // Nothing was sent for an hour, and what was sent before is acknowledged.
  EXPECT_EQ(watch.remaining_ns(3600 * kSecond, {true, 3590 * kSecond}), INT64_MAX);
  watch.note_send(3600 * kSecond, {true, 3590 * kSecond});
  EXPECT_EQ(watch.remaining_ns(3600 * kSecond, none_for(3590 * kSecond)), 2 * kSecond);
}

// Nothing was sent for an hour, in whose last seconds the link was cut: the kernel has heard
// nothing of late, and only data can be waited for.
TEST(SilenceWatchTest, DataAfterAnIdleTimeHasTheWholeLimit) {
  SilenceWatch watch(2 * kSecond);
  watch.note_send(10 * kSecond, all());
  watch.restart();
  watch.note_send(3600 * kSecond, none_for(5 * kSecond));
  EXPECT_EQ(watch.remaining_ns(3600 * kSecond, none_for(5 * kSecond)), 2 * kSecond);
  EXPECT_EQ(watch.remaining_ns(3602 * kSecond, none_for(7 * kSecond)), 0);
}

TEST(SilenceWatchTest, ConnectionWithoutLimitIsNeverSilent) {
  SilenceWatch watch(0);
  watch.note_send(0, all());
  EXPECT_EQ(watch.remaining_ns(3600 * kSecond, none_for(3600 * kSecond)), INT64_MAX);
}

TEST(SilenceWatchTest, KernelTellsAcknowledgements) {
  SocketAddress address;
  SocketAddress bound;
  FileDescriptor listening;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  ASSERT_TRUE(listen_tcp(address, &listening, &bound).ok());
  FileDescriptor socket;
  ASSERT_EQ(sockets::open(AF_INET, SOCK_STREAM, &socket), 0);
  ASSERT_TRUE(set_options(socket.get(), /*silence=*/1234).ok());
  ASSERT_EQ(sockets::connect(socket.get(), bound), 0);
  ASSERT_EQ(sockets::send(socket.get(), "x", 1), 1);
  // The other side's kernel acknowledges although no process reads.
  for (int i = 0; i < 10'000 && !SilenceWatch::read(socket.get()).is_all_acknowledged; ++i) {
    usleep(1000);
  }
  EXPECT_TRUE(SilenceWatch::read(socket.get()).is_all_acknowledged);
  EXPECT_TRUE(SilenceWatch::read(-1).is_all_acknowledged);
}

// One lost probe ends an idle connection that has TCP_USER_TIMEOUT.
TEST(SilenceWatchTest, IdleConnectionOutlivesLostProbes) {
  FileDescriptor socket;
  ASSERT_EQ(sockets::open(AF_INET, SOCK_STREAM, &socket), 0);
  const auto option = [&](int name) {
    int value = -1;
    EXPECT_EQ(sockets::get_option(socket.get(), IPPROTO_TCP, name, &value), 0);
    return value;
  };
  for (const uint32_t silence : {500, 1800, 3'600'000}) {
    ASSERT_TRUE(set_options(socket.get(), silence).ok());
    EXPECT_EQ(option(TCP_USER_TIMEOUT), 0);
    EXPECT_EQ(option(TCP_KEEPCNT), 9);
    EXPECT_GE(option(TCP_KEEPINTVL) * 9 * 1000, std::min(static_cast<int>(silence), 9000));
  }
  ASSERT_TRUE(set_connect_limit(socket.get(), 700).ok());
  EXPECT_EQ(option(TCP_USER_TIMEOUT), 700);
}

}  // namespace
}  // namespace keel
