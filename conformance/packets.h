// SPDX-License-Identifier: Apache-2.0
// The packets of the socket on which a worker reports: answers in JSON (protocol.h), and
// observations of any size. Several small observations share a packet; a large one is split into
// pieces. Each packet begins with the run's token, unknown to a plugin that writes to the socket;
// the reader skips packets with a different token.
#ifndef KEEL_CONFORMANCE_PACKETS_H_
#define KEEL_CONFORMANCE_PACKETS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/observation.h"

namespace keel::conformance {

// A received observation, with the source line that made it.
struct Observation {
  ObservationKind kind = ObservationKind::kValue;
  uint32_t line = 0;
  std::vector<std::byte> bytes;
};

// The worker's end of the socket. If the runner has exited, a write ends the process. Not
// thread-safe.
class PacketWriter {
 public:
  // |holds|: buffer small observations until the next answer or large observation, so a case that
  // measures time does not wait for the runner.
  PacketWriter(int socket, uint64_t token, bool holds = true)
      : socket_(socket), token_(token), holds_(holds) {}

  void write(std::string_view answer);
  void write(ObservationKind kind, uint32_t line, std::span<const std::byte> bytes);

 private:
  void send(uint64_t type, std::span<const std::byte> head, std::span<const std::byte> bytes);
  void flush();

  const int socket_;
  const uint64_t token_;
  const bool holds_;
  std::vector<std::byte> held_;
};

// Decodes the packets of one worker into messages, in order.
class PacketReader {
 public:
  explicit PacketReader(uint64_t token) : token_(token) {}

  // Exactly one member is set.
  struct Message {
    std::string answer;  // set if there is no observation
    std::optional<Observation> observation;
  };
  // Decodes a packet and appends the messages that the packet completes.
  void take(std::span<const std::byte> packet, std::vector<Message>* messages);

 private:
  void take_records(std::span<const std::byte> packet, std::vector<Message>* messages);

  const uint64_t token_;
  std::optional<Observation> begun_;
  uint64_t missing_ = 0;  // bytes still to arrive for |begun_|
};

// The size of the largest packet.
inline constexpr size_t kPacketBytes = 128 << 10;

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PACKETS_H_
