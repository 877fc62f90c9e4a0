// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/tcp_dialog.h"

namespace keel {
namespace {

HostRank host_rank(uint32_t rank, const std::string& host) {
  HostRank each;
  each.peer.rank = rank;
  each.peer.pid = 4000 + rank;
  each.peer.process.bytes.fill(static_cast<uint8_t>(rank + 1));
  each.peer.device = "cpu:0";
  each.host = host;
  each.host_name = "name of " + host;
  each.address = "127.0.0.1:4711";
  each.facts = std::string("\0\x7f\xff", 3);
  each.processors = "\x03";
  return each;
}

struct Example {
  Bytes bytes;
  std::function<Status(ByteView, Bytes*)> parse;  // and writes again
};

std::vector<Example> examples() {
  Opening opening;
  opening.address = "[::1]:1";
  HostTable table;
  table.epoch = 9;
  for (uint32_t rank = 0; rank < 3; ++rank) table.ranks.push_back(host_rank(rank, "a"));
  Opening presence = opening;
  presence.purpose = Opening::Purpose::kPresence;
  return {
      {write_opening(presence),
       [](ByteView bytes, Bytes* again) {
         Opening each;
         const Status status = parse_opening(bytes, &each);
         *again = write_opening(each);
         return status;
       }},
      {write_opening(opening),
       [](ByteView bytes, Bytes* again) {
         Opening each;
         const Status status = parse_opening(bytes, &each);
         *again = write_opening(each);
         return status;
       }},
      {write_challenge({}),
       [](ByteView bytes, Bytes* again) {
         Challenge each;
         const Status status = parse_challenge(bytes, &each);
         *again = write_challenge(each);
         return status;
       }},
      {write_proof({}),
       [](ByteView bytes, Bytes* again) {
         Mac each = {};
         const Status status = parse_proof(bytes, &each);
         *again = write_proof(each);
         return status;
       }},
      {write_host_hello({4, "0.1.0", host_rank(3, "b")}),
       [](ByteView bytes, Bytes* again) {
         HostHello each;
         const Status status = parse_host_hello(bytes, &each);
         *again = write_host_hello(each);
         return status;
       }},
      {write_host_table(table, ProcessToken{}),
       [](ByteView bytes, Bytes* again) {
         HostTable each;
         ProcessToken server;
         const Status status = parse_host_table(bytes, &each, &server);
         *again = write_host_table(each, server);
         return status;
       }},
      {write_notice({Notice::Kind::kFailed, 2, failure(KEEL_RANK_FAILED, "it has ended")}),
       [](ByteView bytes, Bytes* again) {
         Notice each;
         const Status status = parse_notice(bytes, &each);
         *again = write_notice(each);
         return status;
       }},
      {write_regroup({"keel-1:tcp:127.0.0.1:1:00", 1, {0, 3, 17}}),
       [](ByteView bytes, Bytes* again) {
         Regroup each;
         const Status status = parse_regroup(bytes, &each);
         *again = write_regroup(each);
         return status;
       }},
  };
}

TEST(HostMessagesTest, MessagesAreReadAsTheyWereWritten) {
  for (const Example& each : examples()) {
    Bytes again;
    const Status status = each.parse(each.bytes, &again);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(again, each.bytes);
  }
}

TEST(HostMessagesTest, MessagesCutShortOrTooLongAreRefused) {
  for (const Example& each : examples()) {
    Bytes again;
    for (size_t size = 0; size < each.bytes.size(); ++size) {
      EXPECT_EQ(each.parse(ByteView(each.bytes.data(), size), &again).code(), KEEL_DATA_LOSS);
      // With a size that agrees, the fields are what is missing.
      if (size < kMessageHeader) continue;
      Bytes honest(each.bytes.begin(), each.bytes.begin() + static_cast<ptrdiff_t>(size));
      const auto stated = static_cast<uint32_t>(size);
      std::memcpy(honest.data() + kMessageSizeOffset, &stated, sizeof(stated));
      EXPECT_FALSE(each.parse(honest, &again).ok()) << size;
    }
    Bytes longer = each.bytes;
    longer.push_back(0);
    EXPECT_EQ(each.parse(longer, &again).code(), KEEL_DATA_LOSS);
  }
}

TEST(HostMessagesTest, SizesThatLieAreRefusedBeforeMemoryIsTaken) {
  Bytes message = write_proof({});
  size_t size = 0;
  EXPECT_TRUE(message_size(message, kMaxStrangerBytes, &size).ok());
  EXPECT_EQ(size, message.size());
  for (const uint32_t lie : {0u, 11u, uint32_t{kMaxStrangerBytes} + 1, UINT32_MAX}) {
    std::memcpy(message.data() + kMessageSizeOffset, &lie, sizeof(lie));
    EXPECT_EQ(message_size(message, kMaxStrangerBytes, &size).code(), KEEL_DATA_LOSS) << lie;
  }
  message[0] ^= 1;
  EXPECT_EQ(message_size(message, kMaxStrangerBytes, &size).code(), KEEL_DATA_LOSS);
}

TEST(HostMessagesTest, TableStatesMoreRanksThanItHas) {
  HostTable table;
  table.ranks = {host_rank(0, "a")};
  Bytes bytes = write_host_table(table, ProcessToken{});
  const size_t count_offset = kMessageHeader + 16 + 8 + 16;
  for (const uint32_t lie : {0u, 2u, kMaxWorld, kMaxWorld + 1, UINT32_MAX}) {
    std::memcpy(bytes.data() + count_offset, &lie, sizeof(lie));
    HostTable again;
    ProcessToken server;
    EXPECT_EQ(parse_host_table(bytes, &again, &server).code(), KEEL_DATA_LOSS) << lie;
  }
}

TEST(HostTableTest, HostsAreInTheOrderOfTheirLowestRanks) {
  HostTable table;
  uint32_t rank = 0;
  for (const char* host : {"b", "a", "b", "c", "a"}) table.ranks.push_back(host_rank(rank++, host));
  EXPECT_EQ(table.hosts(), (std::vector<std::vector<uint32_t>>{{0, 2}, {1, 4}, {3}}));
  EXPECT_EQ(table.local_name(0), table.local_name(2));
  EXPECT_NE(table.local_name(0), table.local_name(1));
  HostTable next = table;
  ++next.epoch;
  EXPECT_NE(table.local_name(0), next.local_name(0));
}

TEST(HostTableTest, HostsOfOneMachineShareItsProcessors) {
  HostTable table;
  uint32_t rank = 0;
  for (const char* host : {"a", "b", "c", "d"}) table.ranks.push_back(host_rank(rank++, host));
  for (const uint32_t each : {0, 2, 3}) table.ranks[each].peer.chip.boot.fill(7);
  EXPECT_EQ(table.on_machine_of(2), (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_TRUE(table.have_few_processors(table.on_machine_of(2)));  // 3 ranks on 2 processors
  // The machine of rank 1 is unknown, and another one.
  EXPECT_EQ(table.on_machine_of(1), std::vector<uint32_t>{1});
  EXPECT_FALSE(table.have_few_processors(table.on_machine_of(1)));
  table.ranks[3].processors = "\x04";
  EXPECT_FALSE(table.have_few_processors(table.on_machine_of(2)));
}

}  // namespace
}  // namespace keel
