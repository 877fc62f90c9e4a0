// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_dialog.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>

#include <string>
#include <thread>

#include "base/ipc/socket.h"

namespace keel {
namespace {

constexpr uint32_t kSilenceMs = 1800;
constexpr int64_t kTestTimeoutNs = 60'000'000'000;

SocketAddress address_of(const std::string& text) {
  SocketAddress address;
  EXPECT_TRUE(SocketAddress::parse(text, &address));
  return address;
}

TEST(TcpDialogTest, ConnectLimitEndsWithTheHandshake) {
  FileDescriptor listening;
  SocketAddress bound;
  ASSERT_TRUE(listen_tcp(address_of("127.0.0.1:0"), &listening, &bound).ok());
  TcpDialog dialog;
  ASSERT_TRUE(dialog.connect(bound, kSilenceMs, Deadline::after(kTestTimeoutNs)).ok());
  EXPECT_TRUE(dialog.has_route());
  const auto limit = [](int socket) {
    int value = -1;
    EXPECT_EQ(sockets::get_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &value), 0);
    return value;
  };
  EXPECT_EQ(limit(dialog.get()), static_cast<int>(kSilenceMs));
  ASSERT_TRUE(dialog.end_handshake().ok());
  const FileDescriptor socket = dialog.take();
  ASSERT_TRUE(socket);
  EXPECT_EQ(limit(socket.get()), 0);
}

TEST(TcpDialogTest, FailureToEndTheHandshakeIsReturned) {
  TcpDialog unconnected;
  EXPECT_FALSE(unconnected.end_handshake().ok());
}

TEST(TcpDialogTest, PortWithoutAListenerHasARoute) {
  FileDescriptor listening;
  SocketAddress bound;
  ASSERT_TRUE(listen_tcp(address_of("127.0.0.1:0"), &listening, &bound).ok());
  listening = FileDescriptor();
  TcpDialog dialog;
  const Status status = dialog.connect(bound, kSilenceMs, Deadline::after(kTestTimeoutNs));
  EXPECT_EQ(status.code(), KEEL_UNAVAILABLE);
  EXPECT_TRUE(dialog.has_route());
}

// On a thread of its own, which gets a network without interfaces.
TEST(TcpDialogTest, HostWithoutARouteSaysSo) {
  bool is_apart = false;
  bool has_route = true;
  Status status;
  std::thread([&] {
    is_apart = unshare(CLONE_NEWNET) == 0;
    if (!is_apart) return;
    TcpDialog dialog;
    status = dialog.connect(address_of("10.98.0.1:9"), kSilenceMs, Deadline::after(kTestTimeoutNs));
    has_route = dialog.has_route();
  }).join();
  if (!is_apart) GTEST_SKIP() << "this process cannot make a network namespace (root)";
  EXPECT_EQ(status.code(), KEEL_RANK_FAILED);
  EXPECT_FALSE(has_route);
  EXPECT_STREQ(status.text(),
               "this host has no route to 10.98.0.1:9: compare `ip route get 10.98.0.1` with "
               "KEEL_INTERFACE of the other host");
}

}  // namespace
}  // namespace keel
