// SPDX-License-Identifier: Apache-2.0
// The parser of every JSON text that Keel reads: files of users, lines of other processes.
#ifndef KEEL_BASE_STRICT_JSON_H_
#define KEEL_BASE_STRICT_JSON_H_

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

}  // namespace keel

#endif  // KEEL_BASE_STRICT_JSON_H_
