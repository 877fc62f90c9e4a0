// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/bootstrap_address.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "collectives/bootstrap/identity.h"

namespace keel {

namespace {

constexpr std::string_view kRandom = "keel-1:unix:";
constexpr std::string_view kNamed = "keel-1:name:";
constexpr size_t kDigits = 32;

bool is_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

bool is_hex(std::string_view text) {
  return text.size() == kDigits && is_of(text, "0123456789abcdef");
}

// 128-bit FNV-1a. No protection against malice: a process that can choose a colliding name has the
// same user and could take the name itself.
std::array<uint8_t, 16> hash(std::string_view text) {
  using Word = unsigned __int128;
  constexpr Word kPrime = (Word{1} << 88) + 0x13b;
  Word value = (Word{0x6c62272e07bb0142} << 64) + 0x62b821756295c58d;
  for (char each : text) value = (value ^ static_cast<uint8_t>(each)) * kPrime;
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &value, bytes.size());
  return bytes;
}

// Replaces the control characters of |text|, whose origin is unknown, for a message.
std::string shown(std::string_view text) {
  std::string copy(text);
  std::replace_if(
      copy.begin(), copy.end(), [](char each) { return each < 0x20 || each == 0x7f; }, '?');
  return copy;
}

}  // namespace

Status BootstrapAddress::random(BootstrapAddress* out_place) {
  std::array<uint8_t, 16> bytes;
  KEEL_RETURN_IF_ERROR(random_bytes(&bytes));
  out_place->text_ = std::string(kRandom) + hex_text(bytes);
  out_place->absence_ = Absence::kFails;
  return {};
}

BootstrapAddress BootstrapAddress::named(const std::string& name) {
  BootstrapAddress place;
  place.text_ = fmt::format("{}{}-{}", kNamed, geteuid(), hex_text(hash(name)));
  place.absence_ = Absence::kIsWaitedFor;
  return place;
}

Status BootstrapAddress::parse(const keel_unique_id& id, BootstrapAddress* out_place) {
  const size_t size = strnlen(id.text, sizeof(id.text));
  if (size == sizeof(id.text)) {
    return failure(KEEL_INVALID_ARGUMENT, "id has no end within its {} bytes", sizeof(id.text));
  }
  const std::string_view text(id.text, size);
  bool is_id = false;
  if (text.starts_with(kRandom)) {
    is_id = is_hex(text.substr(kRandom.size()));
    out_place->absence_ = Absence::kFails;
  } else if (text.starts_with(kNamed)) {
    const std::string_view rest = text.substr(kNamed.size());
    const size_t dash = rest.find('-');
    is_id = dash != std::string_view::npos && dash <= 10 &&
            is_of(rest.substr(0, dash), "0123456789") && is_hex(rest.substr(dash + 1));
    out_place->absence_ = Absence::kIsWaitedFor;
  }
  if (!is_id) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "id is '{}', which keel_unique_id_create never made: one is {}<32 digits>",
                   shown(text), kRandom);
  }
  out_place->text_ = text;
  return {};
}

keel_unique_id BootstrapAddress::id() const {
  keel_unique_id id = {};
  static_assert(sizeof(id.text) > kNamed.size() + 10 + 1 + kDigits);
  std::memcpy(id.text, text_.data(), std::min(text_.size(), sizeof(id.text) - 1));
  return id;
}

std::string BootstrapAddress::socket_name() const {
  return "keel-meet-" + text_.substr(kRandom.size());
}

}  // namespace keel
