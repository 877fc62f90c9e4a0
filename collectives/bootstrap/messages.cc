// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/messages.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

namespace keel {

namespace {

constexpr uint32_t kMagic = 0x4c45454b;  // "KEEL"
constexpr uint16_t kVersion = 1;
enum class Kind : uint16_t { kRequest = 1, kHello, kQuestion, kAnswer, kRoster, kHold };
constexpr size_t kSizeOffset = 8;  // after magic, version and kind

// Appends numbers in host byte order.
class Writer {
 public:
  explicit Writer(Kind kind) {
    put(kMagic);
    put(kVersion);
    put(static_cast<uint16_t>(kind));
    put(uint32_t{0});  // size, set by finish()
  }
  template <typename Number>
  void put(Number number) {
    static_assert(std::is_integral_v<Number>);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(number));
  }
  void put(const ProcessToken& token) {
    bytes_.insert(bytes_.end(), token.bytes.begin(), token.bytes.end());
  }
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
  }
  Bytes finish() {
    const auto size = static_cast<uint32_t>(bytes_.size());
    std::memcpy(bytes_.data() + kSizeOffset, &size, sizeof(size));
    return std::move(bytes_);
  }

 private:
  Bytes bytes_;
};

bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char each) {
    const auto byte = static_cast<uint8_t>(each);
    return byte < 0x20 || byte == 0x7f;
  });
}

// Reads from the front. After the first error every further read fails and returns 0.
class Reader {
 public:
  Reader(ByteView bytes, Kind kind) : rest_(bytes) {
    const auto magic = take<uint32_t>();
    const auto version = take<uint16_t>();
    const auto found = take<uint16_t>();
    const auto size = take<uint32_t>();
    if (!status_.ok()) return;
    if (magic != kMagic) {
      fail("it does not begin as Keel's do");
    } else if (version != kVersion) {
      status_ = failure(KEEL_UNSUPPORTED,
                        "a message of another version of Keel came: its format is {}, here {}",
                        version, kVersion);
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
  ProcessToken take_token() {
    ProcessToken token;
    take_bytes(token.bytes.data(), token.bytes.size());
    return token;
  }
  std::string take_text(uint32_t limit, const char* name) {
    const auto size = take<uint32_t>();
    if (size > limit) {
      fail(fmt::format("{} has {} bytes, the limit is {}", name, size, limit));
      return {};
    }
    std::string text(status_.ok() ? size : 0, '\0');
    take_bytes(text.data(), text.size());
    if (!is_printable(text)) fail(fmt::format("{} has control characters", name));
    return text;
  }
  PeerInfo take_peer_info() {
    PeerInfo peer_info;
    peer_info.rank = take<uint32_t>();
    peer_info.flags = take<uint32_t>();
    peer_info.pid = take<int64_t>();
    peer_info.start_time = take<uint64_t>();
    peer_info.process = take_token();
    peer_info.device = take_text(kMaxDeviceName, "the device's name");
    return peer_info;
  }
  size_t left() const { return rest_.size(); }
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

void check_rank(Reader& reader, uint32_t rank, uint32_t world) {
  if (world == 0 || world > kMaxWorld) {
    reader.fail(fmt::format("a world of {} ranks; 1 to {} may meet", world, kMaxWorld));
  } else if (rank >= world) {
    reader.fail(fmt::format("rank {} in a world of {}", rank, world));
  }
}

}  // namespace

Bytes write_request(const ObjectId& id) {
  Writer writer(Kind::kRequest);
  writer.put(id.device);
  writer.put(id.inode);
  return writer.finish();
}

Status parse_request(ByteView bytes, ObjectId* out_id) {
  Reader reader(bytes, Kind::kRequest);
  ObjectId id;
  id.device = reader.take<uint64_t>();
  id.inode = reader.take<uint64_t>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_id = id;
  return {};
}

Bytes write_hold() {
  return Writer(Kind::kHold).finish();
}

Status parse_hold(ByteView bytes) {
  return Reader(bytes, Kind::kHold).finish();
}

Bytes write_hello(const Hello& hello) {
  Writer writer(Kind::kHello);
  writer.put(hello.world);
  writer.put(hello.self);
  writer.put(hello.pid_namespace);
  return writer.finish();
}

Status parse_hello(ByteView bytes, Hello* out_hello) {
  Reader reader(bytes, Kind::kHello);
  Hello hello;
  hello.world = reader.take<uint32_t>();
  hello.self = reader.take_peer_info();
  hello.pid_namespace = reader.take<uint64_t>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  check_rank(reader, hello.self.rank, hello.world);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_hello = std::move(hello);
  return {};
}

Bytes write_question() {
  return Writer(Kind::kQuestion).finish();
}

Status parse_question(ByteView bytes) {
  return Reader(bytes, Kind::kQuestion).finish();
}

Bytes write_answer(const Status& status) {
  std::string text(std::string_view(status.text()).substr(0, kMaxAnswerText));
  for (char& each : text) {
    if (!is_printable({&each, 1})) each = ' ';
  }
  Writer writer(Kind::kAnswer);
  writer.put(static_cast<int32_t>(status.code()));
  writer.put(std::string_view(text));
  return writer.finish();
}

Status parse_answer(ByteView bytes, Status* out_status) {
  Reader reader(bytes, Kind::kAnswer);
  const auto code = reader.take<int32_t>();
  std::string text = reader.take_text(kMaxAnswerText, "the text");
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (!is_status(code) || code == KEEL_NOT_READY || (code == KEEL_OK && !text.empty())) {
    reader.fail(fmt::format("its status is {}", code));
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_status = code == KEEL_OK ? Status() : Status(code, std::move(text));
  return {};
}

Bytes write_roster(const std::vector<PeerInfo>& peer_infos) {
  Writer writer(Kind::kRoster);
  writer.put(static_cast<uint32_t>(peer_infos.size()));
  for (const PeerInfo& peer_info : peer_infos) writer.put(peer_info);
  return writer.finish();
}

Status parse_roster(ByteView bytes, std::vector<PeerInfo>* out_peer_infos) {
  constexpr size_t kLeastPeerInfo = 44;  // with an empty device name
  Reader reader(bytes, Kind::kRoster);
  const auto world = reader.take<uint32_t>();
  std::vector<PeerInfo> peer_infos;
  if (world > kMaxWorld || reader.left() < world * kLeastPeerInfo) {
    reader.fail(fmt::format("{} ranks do not fit into it", world));
  } else {
    peer_infos.reserve(world);
  }
  while (peer_infos.size() < world && reader.left() > 0) {
    peer_infos.push_back(reader.take_peer_info());
    check_rank(reader, peer_infos.back().rank, world);
    if (peer_infos.back().rank != peer_infos.size() - 1) reader.fail("ranks are out of order");
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (peer_infos.empty() || peer_infos.size() != world) reader.fail("ranks are missing");
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_peer_infos = std::move(peer_infos);
  return {};
}

}  // namespace keel
