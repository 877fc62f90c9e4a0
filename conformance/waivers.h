// SPDX-License-Identifier: Apache-2.0
// Known failures that an operator accepts for a while, each with a reason and an end.
#ifndef KEEL_CONFORMANCE_WAIVERS_H_
#define KEEL_CONFORMANCE_WAIVERS_H_

#include <string>
#include <string_view>
#include <vector>

namespace keel::conformance {

// Whether |text| fits |glob|: '*' matches any run of characters, '/' included, '?' one,
// "[abc]" one of a set.
bool glob_matches(const std::string& glob, const std::string& text);

struct Waiver {
  std::string case_glob;
  std::string backend;
  std::string reason;
  std::string expires;  // "YYYY-MM-DD", the last day (UTC) on which it holds
};

struct Waivers {
  std::vector<Waiver> active;         // of the backend under test
  std::vector<std::string> messages;  // one for each that has expired

  // The waiver of a case, or NULL.
  const Waiver* find(const std::string& case_id) const;
};

// Reads [{"case": glob, "backend": name, "reason": text, "expires": "YYYY-MM-DD"}, ...].
// Waivers of other backends are left out, those past |today| too, with a message.
// False, and a sentence in |error|, for anything else: a waiver without a reason or an
// end is no waiver.
bool parse_waivers(const std::string& json, const std::string& backend, std::string_view today,
                   Waivers* out_waivers, std::string* error);

// "YYYY-MM-DD" of now, UTC.
std::string today_utc();

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_WAIVERS_H_
