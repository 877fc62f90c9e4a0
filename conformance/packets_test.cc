// SPDX-License-Identifier: Apache-2.0
// Packets that a worker writes to its socket, and the runner's decoding of them.
#include "conformance/packets.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/ipc/socket.h"

namespace keel::conformance {
namespace {

constexpr uint64_t kToken = 0x1234'5678'9abc'def0;

class Packets : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(sockets::open_pair(SOCK_SEQPACKET, &reads_, &writes_), 0); }
  // Reads until |count| messages have arrived.
  std::vector<PacketReader::Message> read(size_t count) {
    std::vector<PacketReader::Message> messages;
    std::vector<std::byte> packet(kPacketBytes);
    while (messages.size() < count) {
      const ssize_t size = sockets::receive(reads_.get(), packet.data(), packet.size());
      if (size <= 0) break;
      reader_.take(std::span(packet).first(static_cast<size_t>(size)), &messages);
    }
    return messages;
  }

  FileDescriptor reads_;
  FileDescriptor writes_;
  PacketReader reader_{kToken};
};

TEST_F(Packets, MessagesComeInTheirOrder) {
  PacketWriter writer(writes_.get(), kToken);
  const std::vector<std::byte> small(3, std::byte{7});
  writer.write("one");
  writer.write(ObservationKind::kBytes, 12, small);
  writer.write(ObservationKind::kStatus, 13, {});
  writer.write("two");
  const auto messages = read(4);
  ASSERT_EQ(messages.size(), 4U);
  EXPECT_EQ(messages[0].answer, "one");
  ASSERT_TRUE(messages[1].observation);
  EXPECT_EQ(messages[1].observation->kind, ObservationKind::kBytes);
  EXPECT_EQ(messages[1].observation->line, 12U);
  EXPECT_EQ(messages[1].observation->bytes, small);
  ASSERT_TRUE(messages[2].observation);
  EXPECT_EQ(messages[2].observation->line, 13U);
  EXPECT_TRUE(messages[2].observation->bytes.empty());
  EXPECT_EQ(messages[3].answer, "two");
}

TEST_F(Packets, LargeObservationsComeWhole) {
  std::vector<std::byte> large(5 * kPacketBytes + 17);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<std::byte>(i * 31 >> 3);
  std::thread worker([&] {
    PacketWriter writer(writes_.get(), kToken);
    writer.write(ObservationKind::kTime, 1, std::span(large).first(8));
    writer.write(ObservationKind::kBytes, 2, large);
    writer.write("end");
  });
  const auto messages = read(3);
  worker.join();
  ASSERT_EQ(messages.size(), 3U);
  EXPECT_EQ(messages[0].observation->bytes.size(), 8U);
  EXPECT_EQ(messages[1].observation->bytes, large);
}

TEST_F(Packets, WhatHasAnotherTokenIsPassedOver) {
  PacketWriter forger(writes_.get(), kToken + 1);
  PacketWriter writer(writes_.get(), kToken);
  const std::string line = "{\"type\": \"done\"}\n";
  ASSERT_EQ(write(writes_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  forger.write("forged");
  forger.write(ObservationKind::kBytes, 2, std::as_bytes(std::span(line)));
  forger.write("forged");
  writer.write("real");
  const auto messages = read(1);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].answer, "real");
}

TEST(PacketReader, DamagedPacketsAreNoMessages) {
  for (const size_t size : {0U, 1U, 31U, 32U, 40U, 200U}) {
    PacketReader reader(0);  // a token that matches
    std::vector<PacketReader::Message> messages;
    for (const std::byte fill : {std::byte{0}, std::byte{0xff}}) {
      reader.take(std::vector<std::byte>(size, fill), &messages);
    }
    EXPECT_TRUE(messages.empty()) << size;
  }
}

}  // namespace
}  // namespace keel::conformance
