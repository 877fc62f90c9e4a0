// SPDX-License-Identifier: Apache-2.0
// Notices from rank to rank over the loopback interface.
#include "collectives/bootstrap/notice_sender.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace keel {
namespace {

constexpr int64_t kTestTimeoutNs = 60'000'000'000;

// The hubs of a job's ranks, all in this process.
std::vector<std::shared_ptr<WireHub>> open_hubs(uint32_t world) {
  SocketAddress any;
  EXPECT_TRUE(SocketAddress::parse("127.0.0.1:0", &any));
  HostTable table;
  std::vector<std::shared_ptr<WireHub>> hubs(world);
  for (uint32_t rank = 0; rank < world; ++rank) {
    const HostSecret secret{std::string("a secret of sixteen bytes")};
    EXPECT_TRUE(WireHub::open(any, secret, rank, &hubs[rank]).ok());
    HostRank each;
    each.peer.rank = rank;
    each.address = hubs[rank]->address().text();
    table.ranks.push_back(each);
  }
  for (const auto& hub : hubs) hub->set_table(std::make_shared<const HostTable>(table));
  return hubs;
}

void wait_for(const std::atomic<bool>& flag) {
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (!flag && !deadline.passed()) std::this_thread::yield();
  EXPECT_TRUE(flag);
}

const Notice kAbort = {Notice::Kind::kAbort, 0, {KEEL_ABORTED, "no more"}};

TEST(NoticeSenderTest, EachRankGetsTheNoticeAndAnEndedOneIsPassedOver) {
  const auto hubs = open_hubs(4);
  std::atomic<bool> told[2] = {false, false};
  for (const uint32_t rank : {1, 2}) {
    hubs[rank]->set_on_notice([&told, rank](const Notice& notice) {
      told[rank - 1] = notice.kind == kAbort.kind && notice.status.text() == std::string("no more");
    });
  }
  hubs[3]->close();
  const auto sender = NoticeSender::start(hubs[0], kAbort, {1, 2, 3});
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  sender->wait(deadline);
  EXPECT_FALSE(deadline.passed());
  for (const auto& each : told) wait_for(each);
  for (const auto& hub : hubs) hub->close();
}

TEST(NoticeSenderTest, ClosingAPortWaitsForTheNoticeThatIsHandled) {
  const auto hubs = open_hubs(2);
  std::atomic<bool> is_handling{false};
  std::atomic<bool> closes{false};
  std::atomic<bool> is_handled{false};
  hubs[1]->set_on_notice([&](const Notice&) {
    is_handling = true;
    wait_for(closes);
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    is_handled = true;
  });
  const auto sender = NoticeSender::start(hubs[0], kAbort, {1});
  wait_for(is_handling);
  closes = true;
  hubs[1]->close();
  EXPECT_TRUE(is_handled);
  sender->close();
  hubs[0]->close();
}

}  // namespace
}  // namespace keel
