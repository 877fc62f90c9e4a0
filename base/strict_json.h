// SPDX-License-Identifier: Apache-2.0
// The parser of every JSON text that Keel reads: files of users, lines of other processes.
#ifndef KEEL_BASE_STRICT_JSON_H_
#define KEEL_BASE_STRICT_JSON_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace keel {

// Deeper than any format of Keel, shallow enough for the recursion in which nlohmann copies,
// compares and writes values: 500,000 brackets overflow the stack.
inline constexpr int kDeepestJson = 32;

// Parses |text|, one JSON value and nothing else (RFC 8259). Returns false for every text that two
// readers may read differently: a key twice in one object, a byte-order mark, bytes behind the
// value that are not blanks (NUL among them, where nlohmann's parser stops), text that is not
// UTF-8; for numbers that no double holds; and for more than |deepest| nested arrays and objects.
// A failure sets |*out_error| to a sentence in plain words with the place, safe for a terminal, and
// |*out_json| to null. The caller prepends the file's name.
//
// Json: nlohmann::json, or nlohmann::ordered_json, which keeps the order of members. Takes linear
// time: a look-up of ordered_json is linear, so parse_json builds large objects without look-ups.
// Throws nothing.
template <typename Json>
bool parse_json(std::string_view text, Json* out_json, std::string* out_error,
                int deepest = kDeepestJson) noexcept;

extern template bool parse_json(std::string_view, nlohmann::json*, std::string*, int) noexcept;
extern template bool parse_json(std::string_view, nlohmann::ordered_json*, std::string*,
                                int) noexcept;

// The result of taking a member.
enum class JsonMember {
  kTaken,
  kTwice,  // the key was there before
  kEnd,    // stop: no more members are wanted
};
using TakeJsonMember =
    std::function<JsonMember(const std::string& key, const nlohmann::json& value)>;

// parse_json for a text that is one object, of which parse_json_members keeps one member at a time:
// for large objects, whose whole value would take twice the memory. Calls |take| with each member
// as the member ends, in the order of the text. |take| stores the keys of the object and reports
// duplicates, since a second set of 300,000 keys took an eighth of the time; parse_json_members
// checks keys inside members. Returns false with an empty |*out_error| after kEnd. Throws
// std::bad_alloc and the exceptions of |take|.
bool parse_json_members(std::string_view text, const TakeJsonMember& take, std::string* out_error,
                        int deepest = kDeepestJson);

}  // namespace keel

#endif  // KEEL_BASE_STRICT_JSON_H_
