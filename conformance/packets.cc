// SPDX-License-Identifier: Apache-2.0
#include "conformance/packets.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/ipc/socket.h"

namespace keel::conformance {

namespace {

// The first bytes of every packet.
struct Head {
  uint64_t token;
  uint64_t type;
};
enum PacketType : uint64_t {
  kAnswer = 1,   // JSON
  kRecords = 2,  // whole observations, each a Record and its bytes
  kFirst = 3,    // a Record and the first of its bytes
  kMore = 4,     // further bytes
};
struct Record {
  ObservationKind kind;
  uint32_t line;
  uint64_t size;
};

constexpr size_t kPieceBytes = kPacketBytes - sizeof(Head) - sizeof(Record);
// Larger observations are sent in packets of their own.
constexpr size_t kSmall = 4096;
// No worker reads back more at once; a larger Record is invalid.
constexpr uint64_t kLargest = uint64_t{1} << 36;

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// Removes a value from the front of |bytes|. Returns false if there are too few bytes.
template <typename T>
bool take_off(std::span<const std::byte>* bytes, T* out_value) {
  if (bytes->size() < sizeof(T)) return false;
  std::memcpy(out_value, bytes->data(), sizeof(T));
  *bytes = bytes->subspan(sizeof(T));
  return true;
}

bool is_sound(const Record& record) {
  return record.size <= kLargest && static_cast<size_t>(record.kind) < kObservationKinds;
}

}  // namespace

void PacketWriter::send(uint64_t type, std::span<const std::byte> head,
                        std::span<const std::byte> bytes) {
  Head first = {token_, type};
  const iovec parts[3] = {{&first, sizeof(first)},
                          {const_cast<std::byte*>(head.data()), head.size()},
                          {const_cast<std::byte*>(bytes.data()), bytes.size()}};
  if (sockets::send(socket_, parts) < 0) _exit(3);  // the runner has exited
}

void PacketWriter::flush() {
  if (!held_.empty()) send(kRecords, {}, held_);
  held_.clear();
}

void PacketWriter::write(std::string_view answer) {
  flush();
  send(kAnswer, {}, std::as_bytes(std::span(answer)));
}

void PacketWriter::write(ObservationKind kind, uint32_t line, std::span<const std::byte> bytes) {
  const Record record = {kind, line, bytes.size()};
  const auto head = bytes_of(record);
  if (bytes.size() <= kSmall) {
    if (held_.size() + head.size() + bytes.size() > kPieceBytes) flush();
    held_.insert(held_.end(), head.begin(), head.end());
    held_.insert(held_.end(), bytes.begin(), bytes.end());
    if (!holds_) flush();
    return;
  }
  flush();
  const size_t size = std::min(bytes.size(), kPieceBytes);
  send(kFirst, head, bytes.first(size));
  for (bytes = bytes.subspan(size); !bytes.empty();) {
    const size_t next = std::min(bytes.size(), kPieceBytes);
    send(kMore, {}, bytes.first(next));
    bytes = bytes.subspan(next);
  }
}

void PacketReader::take_records(std::span<const std::byte> packet, std::vector<Message>* messages) {
  Record record;
  while (take_off(&packet, &record) && is_sound(record) && record.size <= packet.size()) {
    const auto bytes = packet.first(record.size);
    messages->push_back({{}, Observation{record.kind, record.line, {bytes.begin(), bytes.end()}}});
    packet = packet.subspan(record.size);
  }
}

void PacketReader::take(std::span<const std::byte> packet, std::vector<Message>* messages) {
  Head head;
  if (!take_off(&packet, &head) || head.token != token_) return;
  if (head.type != kMore) begun_.reset();
  if (head.type == kAnswer) {
    messages->push_back(
        {std::string(reinterpret_cast<const char*>(packet.data()), packet.size()), {}});
  }
  if (head.type == kRecords) take_records(packet, messages);
  if (head.type == kFirst) {
    Record record;
    if (!take_off(&packet, &record) || !is_sound(record)) return;
    begun_ = Observation{record.kind, record.line, {}};
    begun_->bytes.reserve(std::min<uint64_t>(record.size, uint64_t{1} << 26));
    missing_ = record.size;
  }
  if (!begun_ || packet.size() > missing_) return;
  begun_->bytes.insert(begun_->bytes.end(), packet.begin(), packet.end());
  missing_ -= packet.size();
  if (missing_ == 0) messages->push_back({{}, std::exchange(begun_, std::nullopt)});
}

}  // namespace keel::conformance
