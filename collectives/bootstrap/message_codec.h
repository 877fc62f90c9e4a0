// SPDX-License-Identifier: Apache-2.0
// Writes and reads the fields of bootstrap messages, within a host and between hosts.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MESSAGE_CODEC_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MESSAGE_CODEC_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/messages.h"
#include "core/status.h"

namespace keel {

inline constexpr uint32_t kMessageMagic = 0x4c45454b;  // "KEEL"
inline constexpr uint16_t kMessageVersion = 4;
// Existing numbers stay: another version of Keel must be able to say what came.
enum class MessageKind : uint16_t {
  kRequest = 1,
  kHello,
  kQuestion,
  kAnswer,
  kRoster,
  kHold,
  kOpening,
  kChallenge,
  kProof,
  kHostHello,
  kHostTable,
  kNotice,
  kRegroup,
  kRegroupAsk,
  kStoreArrival,
  kStoreRoster,
  kStoreReport
};
// Magic number, version, kind and size of the whole message.
inline constexpr size_t kMessageHeader = 12;
inline constexpr size_t kMessageSizeOffset = 8;
static_assert(std::endian::native == std::endian::little, "messages between hosts are so");

// Whether |text| has no control characters.
inline bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char each) {
    const auto byte = static_cast<uint8_t>(each);
    return byte < 0x20 || byte == 0x7f;
  });
}

// Appends numbers in little-endian order.
class MessageWriter {
 public:
  explicit MessageWriter(MessageKind kind) {
    put(kMessageMagic);
    put(kMessageVersion);
    put(static_cast<uint16_t>(kind));
    put(uint32_t{0});  // size, set by finish()
  }
  template <typename Number>
  void put(Number number) {
    static_assert(std::is_integral_v<Number>);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(number));
  }
  template <size_t kSize>
  void put(const std::array<uint8_t, kSize>& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void put(const ProcessToken& token) { put(token.bytes); }
  void put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  void put(const PeerInfo& peer_info) {
    put(peer_info.rank);
    put(peer_info.flags);
    put(peer_info.pid);
    put(peer_info.start_time);
    put(peer_info.process);
    put(std::string_view(peer_info.device));
    put(peer_info.chip.boot);
    put(peer_info.chip.id.pci);
    put(peer_info.chip.id.uuid);
  }
  // Control characters become blanks, and the text is cut to |limit| bytes.
  void put_status(const Status& status, uint32_t limit) {
    std::string text(std::string_view(status.text()).substr(0, limit));
    for (char& each : text) {
      if (!is_printable({&each, 1})) each = ' ';
    }
    put(static_cast<int32_t>(status.code()));
    put(std::string_view(text));
  }
  Bytes finish() {
    const auto size = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data() + kMessageSizeOffset, &size, sizeof(size));
    return std::move(bytes_);
  }

 private:
  Bytes bytes_;
};

// Reads from the front. After the first error every further read fails and returns 0.
class MessageReader {
 public:
  MessageReader(ByteView bytes, MessageKind kind) : rest_(bytes) {
    const auto magic = take<uint32_t>();
    const auto version = take<uint16_t>();
    const auto found = take<uint16_t>();
    const auto size = take<uint32_t>();
    if (!status_.ok()) return;
    if (magic != kMessageMagic) {
      fail("it does not begin as Keel's do");
    } else if (version != kMessageVersion) {
      status_ = failure(KEEL_UNSUPPORTED,
                        "a message of another version of Keel came: its format is {}, here {}",
                        version, kMessageVersion);
    } else if (found != static_cast<uint16_t>(kind)) {
      fail(fmt::format("its kind is {}, not {}", found, static_cast<uint16_t>(kind)));
    } else if (size != bytes.size()) {
      fail(fmt::format("it says that it has {} bytes, and has {}", size, bytes.size()));
    }
  }

  template <typename Number>
  Number take() {
    Number number = 0;
    take_bytes(&number, sizeof(number));
    return number;
  }
  template <size_t kSize>
  std::array<uint8_t, kSize> take_array() {
    std::array<uint8_t, kSize> bytes = {};
    take_bytes(bytes.data(), bytes.size());
    return bytes;
  }
  ProcessToken take_token() { return {take_array<16>()}; }
  std::string take_text(uint32_t limit, const char* name) {
    const auto size = take<uint32_t>();
    if (size > limit) {
      fail(fmt::format("{} has {} bytes, the limit is {}", name, size, limit));
      return {};
    }
    std::string text = take_blob(size);
    if (!is_printable(text)) fail(fmt::format("{} has control characters", name));
    return text;
  }
  // Bytes of any value.
  std::string take_data(uint32_t limit, const char* name) {
    const auto size = take<uint32_t>();
    if (size > limit) {
      fail(fmt::format("{} has {} bytes, the limit is {}", name, size, limit));
      return {};
    }
    return take_blob(size);
  }
  PeerInfo take_peer_info() {
    PeerInfo peer_info;
    peer_info.rank = take<uint32_t>();
    peer_info.flags = take<uint32_t>();
    peer_info.pid = take<int64_t>();
    peer_info.start_time = take<uint64_t>();
    peer_info.process = take_token();
    peer_info.device = take_text(kMaxDeviceName, "the device's name");
    peer_info.chip.boot = take_array<16>();
    peer_info.chip.id.pci = take<uint64_t>();
    peer_info.chip.id.uuid = take_array<16>();
    return peer_info;
  }
  // A code that no answer has, and a success with a text, fail the reader.
  Status take_status(uint32_t limit) {
    const auto code = take<int32_t>();
    std::string text = take_text(limit, "the text");
    if (status_.ok() &&
        (!is_status(code) || code == KEEL_NOT_READY || (code == KEEL_OK && !text.empty()))) {
      fail(fmt::format("its status is {}", code));
    }
    return code == KEEL_OK || !status_.ok() ? Status() : Status(code, std::move(text));
  }
  size_t left() const { return rest_.size(); }
  // Fails unless |rank| is one of |world|, from 1 to kMaxWorld.
  void check_rank(uint32_t rank, uint32_t world) {
    if (world == 0 || world > kMaxWorld) {
      fail(fmt::format("a world of {} ranks; 1 to {} may meet", world, kMaxWorld));
    } else if (rank >= world) {
      fail(fmt::format("rank {} in a world of {}", rank, world));
    }
  }
  void fail(const std::string& why) {
    if (status_.ok()) status_ = failure(KEEL_DATA_LOSS, "a message is malformed: {}", why);
    rest_ = {};
  }
  // Returns the first error; all bytes must have been read.
  Status finish() {
    if (!rest_.empty()) fail(fmt::format("{} bytes too many", rest_.size()));
    return status_;
  }

 private:
  std::string take_blob(uint32_t size) {
    if (size > rest_.size()) {
      fail("it is cut short");
      return {};
    }
    std::string bytes(size, '\0');
    take_bytes(bytes.data(), bytes.size());
    return bytes;
  }
  void take_bytes(void* destination, size_t size) {
    if (size > rest_.size()) {
      fail("it is cut short");
      return;
    }
    if (size == 0) return;
    std::memcpy(destination, rest_.data(), size);
    rest_ = rest_.subspan(size);
  }

  ByteView rest_;
  Status status_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MESSAGE_CODEC_H_
