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
  void put(const Attendee& attendee) {
    put(attendee.rank);
    put(attendee.flags);
    put(attendee.pid);
    put(attendee.start_time);
    put(attendee.process);
    put(std::string_view(attendee.device));
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
  Attendee take_attendee() {
    Attendee attendee;
    attendee.rank = take<uint32_t>();
    attendee.flags = take<uint32_t>();
    attendee.pid = take<int64_t>();
    attendee.start_time = take<uint64_t>();
    attendee.process = take_token();
    attendee.device = take_text(kMaxDeviceName, "the device's name");
    return attendee;
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
  hello.self = reader.take_attendee();
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

Bytes write_roster(const std::vector<Attendee>& attendees) {
  Writer writer(Kind::kRoster);
  writer.put(static_cast<uint32_t>(attendees.size()));
  for (const Attendee& attendee : attendees) writer.put(attendee);
  return writer.finish();
}

Status parse_roster(ByteView bytes, std::vector<Attendee>* out_attendees) {
  constexpr size_t kLeastAttendee = 44;  // with an empty device name
  Reader reader(bytes, Kind::kRoster);
  const auto world = reader.take<uint32_t>();
  std::vector<Attendee> attendees;
  if (world > kMaxWorld || reader.left() < world * kLeastAttendee) {
    reader.fail(fmt::format("{} ranks do not fit into it", world));
  } else {
    attendees.reserve(world);
  }
  while (attendees.size() < world && reader.left() > 0) {
    attendees.push_back(reader.take_attendee());
    check_rank(reader, attendees.back().rank, world);
    if (attendees.back().rank != attendees.size() - 1) reader.fail("ranks are out of order");
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (attendees.empty() || attendees.size() != world) reader.fail("ranks are missing");
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_attendees = std::move(attendees);
  return {};
}

}  // namespace keel
