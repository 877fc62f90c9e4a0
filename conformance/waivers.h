// SPDX-License-Identifier: Apache-2.0
// Known failures that an operator accepts for a limited time, each with a reason and an expiry
// date.
#ifndef KEEL_CONFORMANCE_WAIVERS_H_
#define KEEL_CONFORMANCE_WAIVERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace keel::conformance {

// Returns whether |text| matches |glob|: '*' matches any run of characters including '/', '?' one
// character, "[abc]" one of a set.
bool glob_matches(const std::string& glob, const std::string& text);

struct Waiver {
  std::string case_glob;
  std::string backend;
  std::string reason;
  std::string expires;  // "YYYY-MM-DD", the last day (UTC) of validity
};

struct Waivers {
  std::vector<Waiver> active;         // waivers of the backend under test
  std::vector<std::string> messages;  // one per expired waiver

  // Returns the waiver of a case, or NULL.
  const Waiver* find(const std::string& case_id) const;
};

// Parses [{"case": glob, "backend": name, "reason": text, "expires": "YYYY-MM-DD"}, ...], or a
// certificate, whose member "waivers" is such a list. Skips waivers of other backends, and expired
// ones (before |today|) with a message. For any other content returns false, with a sentence in
// |error|: every waiver needs a reason and an expiry date.
bool parse_waivers(const std::string& json, const std::string& backend, std::string_view today,
                   Waivers* out_waivers, std::string* error);

// Returns today's date in UTC, "YYYY-MM-DD".
std::string today_utc();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_WAIVERS_H_
