// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/messages.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/store_messages.h"
#include "collectives/flight/flight_clock.h"

namespace keel {
namespace {

PeerInfo peer_info(uint32_t rank) {
  PeerInfo self;
  self.rank = rank;
  self.pid = 1000 + rank;
  self.start_time = uint64_t{1} << 40;
  self.process.bytes.fill(static_cast<uint8_t>(rank));
  self.flags = 0xf0f0f0f0;
  self.device = std::string(rank % (kMaxDeviceName + 1), 'd');
  self.chip.boot.fill(0xb0);
  self.chip.id.pci = rank % 2 == 0 ? rank : ChipId::kNoPci;
  self.chip.id.uuid.fill(static_cast<uint8_t>(rank + 1));
  return self;
}

std::vector<PeerInfo> peer_infos(uint32_t world) {
  std::vector<PeerInfo> all;
  for (uint32_t rank = 0; rank < world; ++rank) all.push_back(peer_info(rank));
  return all;
}

StoreArrival arrival(uint32_t rank) {
  StoreArrival made;
  made.ticket.bytes.fill(3);
  made.world = kMaxWorld;
  made.self = peer_info(rank);
  made.place = {std::string(64, 'h'), std::string(36, 'b'), 4026531836, 4026531840};
  made.lifeline = {17, {12, UINT64_MAX}};
  return made;
}

StoreRoster store_roster(uint32_t world) {
  StoreRoster made;
  made.segment = {1, 2};
  for (uint32_t rank = 0; rank < world; ++rank) {
    const StoreArrival each = arrival(rank);
    made.ranks.push_back({each.ticket, each.self, each.place.net_namespace, each.lifeline});
  }
  return made;
}

// One message of each kind, and its parser.
struct Example {
  Bytes bytes;
  std::function<Status(ByteView)> parse;
};
std::vector<Example> examples() {
  return {
      {write_request({1, 2}),
       [](ByteView bytes) {
         ObjectId id;
         return parse_request(bytes, &id);
       }},
      {write_hello({8, peer_info(7), 4026531836}),
       [](ByteView bytes) {
         Hello hello;
         return parse_hello(bytes, &hello);
       }},
      {write_question(), parse_question},
      {write_hold(), parse_hold},
      {write_answer(failure(KEEL_TIMED_OUT, "too late")),
       [](ByteView bytes) {
         Status answer;
         return parse_answer(bytes, &answer);
       }},
      {write_roster(peer_infos(3)),
       [](ByteView bytes) {
         std::vector<PeerInfo> all;
         return parse_roster(bytes, &all);
       }},
      {write_store_arrival(arrival(1)),
       [](ByteView bytes) {
         StoreArrival found;
         return parse_store_arrival(bytes, &found);
       }},
      {write_store_roster(store_roster(2)),
       [](ByteView bytes) {
         StoreRoster found;
         return parse_store_roster(bytes, &found);
       }},
      {write_store_report({{}, failure(KEEL_TIMED_OUT, "too late")}),
       [](ByteView bytes) {
         StoreReport found;
         return parse_store_report(bytes, &found);
       }},
  };
}

TEST(MessagesTest, AreReadAsTheyWereWritten) {
  ObjectId id;
  ASSERT_TRUE(parse_request(write_request({3, UINT64_MAX}), &id).ok());
  EXPECT_EQ(id, (ObjectId{3, UINT64_MAX}));
  Hello hello;
  ASSERT_TRUE(parse_hello(write_hello({kMaxWorld, peer_info(kMaxWorld - 1)}), &hello).ok());
  EXPECT_EQ(hello.world, kMaxWorld);
  EXPECT_EQ(hello.self, peer_info(kMaxWorld - 1));
  Status answer = Status::no_memory();
  ASSERT_TRUE(parse_answer(write_answer({}), &answer).ok());
  EXPECT_TRUE(answer.ok());
  ASSERT_TRUE(parse_answer(write_answer(failure(KEEL_ABORTED, "no\nmore")), &answer).ok());
  EXPECT_EQ(answer.code(), KEEL_ABORTED);
  EXPECT_STREQ(answer.text(), "no more");
  ASSERT_TRUE(
      parse_answer(write_answer(Status(KEEL_ABORTED, std::string(5000, 'x'))), &answer).ok());
  EXPECT_EQ(std::string(answer.text()).size(), kMaxAnswerText);
  for (uint32_t world : {1u, 5u, kMaxWorld}) {
    const Bytes roster = write_roster(peer_infos(world));
    EXPECT_LE(roster.size(), kMaxRosterBytes);
    std::vector<PeerInfo> all;
    const Status parsed = parse_roster(roster, &all);
    ASSERT_TRUE(parsed.ok()) << parsed.text();
    EXPECT_EQ(all, peer_infos(world));
  }
}

TEST(MessagesTest, ValuesOfAStoreAreReadAsTheyWereWritten) {
  const StoreArrival written = arrival(79);
  const Bytes bytes = write_store_arrival(written);
  EXPECT_LE(bytes.size(), kMaxStoreArrival);
  StoreArrival read;
  ASSERT_TRUE(parse_store_arrival(bytes, &read).ok());
  EXPECT_EQ(read.ticket, written.ticket);
  EXPECT_EQ(read.world, written.world);
  EXPECT_EQ(read.self, written.self);
  EXPECT_EQ(read.place, written.place);
  EXPECT_EQ(read.lifeline, written.lifeline);
  for (uint32_t world : {1u, 5u, kMaxWorld}) {
    StoreRoster roster = store_roster(world);
    roster.id = std::string(sizeof(keel_unique_id) - 1, 'i');
    const Bytes list = write_store_roster(roster);
    EXPECT_LE(list.size(), max_store_roster(world));
    StoreRoster found;
    ASSERT_TRUE(parse_store_roster(list, &found).ok());
    ASSERT_EQ(found.ranks.size(), world);
    EXPECT_EQ(found.id, roster.id);
    EXPECT_EQ(found.segment, roster.segment);
    EXPECT_EQ(found.ranks.back().peer, roster.ranks.back().peer);
    EXPECT_EQ(found.ranks.back().lifeline, roster.ranks.back().lifeline);
  }
  const Status longest(KEEL_ABORTED, std::string(5000, 'x'));
  StoreReport report;
  EXPECT_LE(write_store_report({{}, longest}).size(), kMaxStoreReport);
  ASSERT_TRUE(parse_store_report(write_store_report({{}, longest}), &report).ok());
  EXPECT_EQ(report.result.code(), KEEL_ABORTED);
  StoreRoster odd = store_roster(3);
  std::swap(odd.ranks[1], odd.ranks[2]);
  EXPECT_EQ(parse_store_roster(write_store_roster(odd), &odd).code(), KEEL_DATA_LOSS);
  EXPECT_EQ(parse_store_roster(write_store_roster({}), &odd).code(), KEEL_DATA_LOSS);
  StoreArrival outside = arrival(3);
  outside.world = 3;
  EXPECT_EQ(parse_store_arrival(write_store_arrival(outside), &outside).code(), KEEL_DATA_LOSS);
}

// An address says nothing between machines; within a process the boot id need not be known.
TEST(PeerInfoTest, ChipsAreComparedOnOneMachineAlone) {
  PeerInfo one = peer_info(2);
  PeerInfo two = peer_info(4);
  EXPECT_FALSE(one.shares_chip_with(two));
  two.chip.id.pci = one.chip.id.pci;
  EXPECT_TRUE(one.shares_chip_with(two));
  two.chip.boot[3] = 1;
  EXPECT_FALSE(one.shares_chip_with(two));
  one.chip.boot = two.chip.boot = {};
  EXPECT_FALSE(one.shares_chip_with(two));
  two.process = one.process;
  EXPECT_TRUE(one.shares_chip_with(two));
  two.chip.id = {ChipId::kNoPci, one.chip.id.uuid};
  EXPECT_TRUE(one.shares_chip_with(two));
  one.chip.id = two.chip.id = {};
  EXPECT_FALSE(one.shares_chip_with(two));
  auto info = KEEL_STRUCT_INIT(keel_device_info, KEEL_STRUCT_DEVICE_INFO);
  info.uuid[5] = 7;
  const PeerChip chip = PeerChip::of(info);
  EXPECT_EQ(chip.id.uuid[5], 7);
  EXPECT_EQ(chip.id.pci, ChipId::kNoPci);
  EXPECT_EQ(hex_text(chip.boot) == std::string(32, '0'), boot_id().empty());
}

TEST(MessagesTest, CutShortOrTooLong) {
  for (const Example& example : examples()) {
    ASSERT_TRUE(example.parse(example.bytes).ok());
    for (size_t size = 0; size < example.bytes.size(); ++size) {
      EXPECT_EQ(example.parse(ByteView(example.bytes).first(size)).code(), KEEL_DATA_LOSS) << size;
    }
    Bytes longer = example.bytes;
    longer.push_back(0);
    EXPECT_EQ(example.parse(longer).code(), KEEL_DATA_LOSS);
    // Also malformed with a matching size.
    longer[8] = static_cast<uint8_t>(longer.size());
    longer[9] = static_cast<uint8_t>(longer.size() >> 8);
    EXPECT_EQ(example.parse(longer).code(), KEEL_DATA_LOSS);
  }
}

TEST(MessagesTest, OfAnotherKindOrVersion) {
  const std::vector<Example> all = examples();
  for (size_t kind = 0; kind < all.size(); ++kind) {
    for (size_t other = 0; other < all.size(); ++other) {
      EXPECT_EQ(all[kind].parse(all[other].bytes).code(), kind == other ? KEEL_OK : KEEL_DATA_LOSS);
    }
    Bytes newer = all[kind].bytes;
    newer[4] = kMessageVersion + 1;
    const Status status = all[kind].parse(newer);
    EXPECT_EQ(status.code(), KEEL_UNSUPPORTED);
    const auto expected =
        fmt::format("its format is {}, here {}", kMessageVersion + 1, kMessageVersion);
    EXPECT_NE(std::string(status.text()).find(expected), std::string::npos) << status.text();
    Bytes foreign = all[kind].bytes;
    foreign[0] = 'H';
    EXPECT_EQ(all[kind].parse(foreign).code(), KEEL_DATA_LOSS);
  }
}

TEST(MessagesTest, ContentsThatCannotBe) {
  Hello hello;
  EXPECT_EQ(parse_hello(write_hello({7, peer_info(7)}), &hello).code(), KEEL_DATA_LOSS);
  EXPECT_EQ(parse_hello(write_hello({0, peer_info(0)}), &hello).code(), KEEL_DATA_LOSS);
  EXPECT_EQ(parse_hello(write_hello({kMaxWorld + 1, peer_info(0)}), &hello).code(), KEEL_DATA_LOSS);
  PeerInfo odd = peer_info(0);
  odd.device = std::string(kMaxDeviceName + 1, 'd');
  EXPECT_EQ(parse_hello(write_hello({1, odd}), &hello).code(), KEEL_DATA_LOSS);
  for (char each : {'\0', '\n', '\x7f'}) {
    odd.device = std::string("cpu") + each;
    EXPECT_EQ(parse_hello(write_hello({1, odd}), &hello).code(), KEEL_DATA_LOSS);
  }
  std::vector<PeerInfo> all = peer_infos(3);
  std::swap(all[1], all[2]);
  EXPECT_EQ(parse_roster(write_roster(all), &all).code(), KEEL_DATA_LOSS);
  EXPECT_EQ(parse_roster(write_roster({}), &all).code(), KEEL_DATA_LOSS);
  EXPECT_EQ(parse_roster(write_roster(peer_infos(kMaxWorld + 1)), &all).code(), KEEL_DATA_LOSS);
  // A count that exceeds the bytes reserves no memory.
  Bytes roster = write_roster(peer_infos(3));
  roster[13] = 0x0f;
  EXPECT_EQ(parse_roster(roster, &all).code(), KEEL_DATA_LOSS);
  Status answer;
  Bytes unknown = write_answer(failure(KEEL_ABORTED, "x"));
  for (uint8_t code : {uint8_t{0}, uint8_t{31}, uint8_t{KEEL_NOT_READY}, uint8_t{200}}) {
    unknown[12] = code;
    EXPECT_EQ(parse_answer(unknown, &answer).code(), KEEL_DATA_LOSS) << int{code};
  }
}

}  // namespace
}  // namespace keel
