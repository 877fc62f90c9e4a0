// SPDX-License-Identifier: Apache-2.0
#include "conformance/waivers.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/strict_json.h"

namespace keel::conformance {

namespace {

// Checks only the form; dates are compared as text.
bool is_date(const std::string& text) {
  return glob_matches("[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]", text);
}

bool read_waiver(const nlohmann::json& entry, Waiver* out_waiver, std::string* error) {
  const struct {
    const char* key;
    std::string* value;
  } members[] = {{"case", &out_waiver->case_glob},
                 {"backend", &out_waiver->backend},
                 {"reason", &out_waiver->reason},
                 {"expires", &out_waiver->expires}};
  if (!entry.is_object() || entry.size() != std::size(members)) {
    *error = "each waiver is an object with case, backend, reason and expires, and no more";
    return false;
  }
  for (const auto& [key, value] : members) {
    const auto found = entry.find(key);
    if (found == entry.end() || !found->is_string() || found->get<std::string>().empty()) {
      *error = fmt::format("\"{}\" is missing, empty or no string", key);
      return false;
    }
    *value = found->get<std::string>();
  }
  if (!is_date(out_waiver->expires)) {
    *error = fmt::format("expires is '{}', not YYYY-MM-DD", out_waiver->expires);
    return false;
  }
  return true;
}

}  // namespace

bool glob_matches(const std::string& glob, const std::string& text) {
  return fnmatch(glob.c_str(), text.c_str(), 0) == 0;
}

const Waiver* Waivers::find(const std::string& case_id) const {
  const auto found = std::find_if(active.begin(), active.end(), [&](const Waiver& waiver) {
    return glob_matches(waiver.case_glob, case_id);
  });
  return found == active.end() ? nullptr : &*found;
}

bool parse_waivers(const std::string& json, const std::string& backend, std::string_view today,
                   Waivers* out_waivers, std::string* error) {
  nlohmann::json list;
  if (!parse_json(json, &list, error)) return false;
  if (list.is_object() && list.contains("waivers")) list = nlohmann::json(list.at("waivers"));
  if (!list.is_array()) {
    *error = "the file is neither a JSON array nor a certificate with waivers";
    return false;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    Waiver waiver;
    if (!read_waiver(list[i], &waiver, error)) {
      *error = fmt::format("waiver {}: {}", i, *error);
      return false;
    }
    if (waiver.backend != backend) continue;
    if (waiver.expires < today) {
      out_waivers->messages.push_back(fmt::format("waiver of {} expired on {} and is ignored: {}",
                                                  waiver.case_glob, waiver.expires, waiver.reason));
      continue;
    }
    out_waivers->active.push_back(std::move(waiver));
  }
  return true;
}

std::string today_utc() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace keel::conformance
