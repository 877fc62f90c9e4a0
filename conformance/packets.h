// SPDX-License-Identifier: Apache-2.0
// The packets of the socket on which a worker reports: answers in JSON (protocol.h), and
// observations of any size, small ones several in a packet, large ones in pieces. Each begins with
// the token of the run, which a plugin that writes to the socket does not know: what has another is
// passed over.
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

// An observation as it arrives, with the line that made it.
struct Observation {
  ObservationKind kind = ObservationKind::kValue;
  uint32_t line = 0;
  std::vector<std::byte> bytes;
};

// The worker's end of the socket. Where the runner has gone, the process ends. For one thread.
class PacketWriter {
 public:
  // |holds|: small observations are held back until the next answer or large one, since a case that
  // times what it does is not to wait for the runner.
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

// The messages in the packets of one worker, in their order.
class PacketReader {
 public:
  explicit PacketReader(uint64_t token) : token_(token) {}

  // One of both members.
  struct Message {
    std::string answer;  // where there is no observation
    std::optional<Observation> observation;
  };
  // Takes a packet, and appends what it completes.
  void take(std::span<const std::byte> packet, std::vector<Message>* messages);

 private:
  void take_records(std::span<const std::byte> packet, std::vector<Message>* messages);

  const uint64_t token_;
  std::optional<Observation> begun_;
  uint64_t missing_ = 0;  // bytes of it
};

// As large as the largest packet.
inline constexpr size_t kPacketBytes = 128 << 10;

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PACKETS_H_
