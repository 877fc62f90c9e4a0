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
// compares and writes values: 500,000 brackets end the stack.
inline constexpr int kDeepestJson = 32;

// Parses |text|, which is one JSON value and nothing else (RFC 8259). Returns false for everything
// that two readers may take for two contents: a key twice in one object, a byte-order mark, bytes
// behind the value that are not blanks (NUL among them, where nlohmann's parser stops), text that
// is not UTF-8; for numbers that no double holds; and for more than |deepest| arrays and objects
// inside each other. |*out_error| then is a sentence in plain words with the place, fit for a
// terminal, and |*out_json| is null. The caller puts the name of the file before it.
//
// Json: nlohmann::json, or nlohmann::ordered_json, which keeps the order of members. Takes time in
// proportion to the text: a look-up of ordered_json is linear, so a large object of it is built
// here and not member by member. Throws nothing.
template <typename Json>
bool parse_json(std::string_view text, Json* out_json, std::string* out_error,
                int deepest = kDeepestJson) noexcept;

extern template bool parse_json(std::string_view, nlohmann::json*, std::string*, int) noexcept;
extern template bool parse_json(std::string_view, nlohmann::ordered_json*, std::string*,
                                int) noexcept;

// The result of taking a member.
enum class JsonMember {
  kTaken,
  kTwice,  // its key was there before
  kEnd,    // nothing more is wanted
};
using TakeJsonMember =
    std::function<JsonMember(const std::string& key, const nlohmann::json& value)>;

// The same of a text that is one object, of which one member at a time is kept: for large ones,
// whose whole value would take twice the memory. Calls |take| with each member as it ends, in the
// order of the text. |take| keeps the keys and tells which it has, for a second set of 300,000 keys
// took an eighth of the time; keys inside of members are looked at here. Returns false with an
// empty
// |*out_error| after kEnd. Throws std::bad_alloc and what |take| throws.
bool parse_json_members(std::string_view text, const TakeJsonMember& take, std::string* out_error,
                        int deepest = kDeepestJson);

}  // namespace keel

#endif  // KEEL_BASE_STRICT_JSON_H_
