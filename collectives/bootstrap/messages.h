// SPDX-License-Identifier: Apache-2.0
// What processes say to each other while ranks meet, as bytes.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/bootstrap/identity.h"
#include "core/status.h"

namespace keel {

// Every message begins with a magic number, a version, a kind and its size, in the host's
// order of bytes, since it never leaves the host. The parsers believe nothing: KEEL_DATA_LOSS
// for bytes that are no such message, with the reason; KEEL_UNSUPPORTED for one of another
// version. What they accept is written as the same bytes again.
using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

// Wants the object of that id.
Bytes write_request(const ObjectId& id);
Status parse_request(ByteView bytes, ObjectId* out_id);

// Wants the connection held until one of the two processes ends, or execs. Not answered.
Bytes write_hold();
Status parse_hold(ByteView bytes);

// A rank has come.
struct Hello {
  uint32_t world = 0;
  Attendee self;
  uint64_t pid_namespace = 0;  // namespace_number("pid")
};
Bytes write_hello(const Hello& hello);
Status parse_hello(ByteView bytes, Hello* out_hello);

// The rank's deadline has passed, it leaves: who is missing?
Bytes write_question();
Status parse_question(ByteView bytes);

// What |status| a request or a hello got. Texts beyond kMaxAnswerText bytes are cut.
inline constexpr uint32_t kMaxAnswerText = 900;
Bytes write_answer(const Status& status);
// The result is whether |bytes| are an answer, |*out_status| which.
Status parse_answer(ByteView bytes, Status* out_status);

// Everybody, in rank order; up to kMaxRosterBytes.
Bytes write_roster(const std::vector<Attendee>& attendees);
Status parse_roster(ByteView bytes, std::vector<Attendee>* out_attendees);
inline constexpr uint64_t kMaxRosterBytes = uint64_t{kMaxWorld} * 128 + 64;

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_MESSAGES_H_
