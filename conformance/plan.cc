// SPDX-License-Identifier: Apache-2.0
#include "conformance/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json_value.h"
#include "base/strict_json.h"
#include "conformance/text_file.h"

namespace keel::conformance {

namespace {

// Reads the ids of the failed cases from the report |path|.
bool read_failed(const std::string& path, std::set<std::string>* out_ids, std::string* error) {
  std::string text;
  if (!read_file(path, &text)) {
    *error = path + " cannot be read";
    return false;
  }
  nlohmann::json json;
  if (!parse_json(text, &json, error)) {
    *error = path + ": " + *error;
    return false;
  }
  try {
    for (const JsonValue& each : JsonValue(json).at("results").elements()) {
      const auto outcome = find_outcome(each.at("outcome").text());
      if (outcome && is_failure(*outcome)) out_ids->insert(each.at("id").text());
    }
  } catch (const JsonError& wrong) {
    *error = fmt::format("{} is no report of `keel conform run --json`: {}", path, wrong.what());
    return false;
  }
  return true;
}

}  // namespace

bool parse_levels(const std::vector<std::string>& names, std::vector<Level>* out_levels,
                  std::string* error) {
  std::string known;
  for (const LevelInfo& info : levels()) {
    known += (known.empty() ? "" : ", ") + std::string(info.name);
    if (names.empty() || std::count(names.begin(), names.end(), info.name) != 0) {
      out_levels->push_back(info.level);
    }
  }
  for (const std::string& name : names) {
    if (!find_level(name)) {
      *error = fmt::format("'{}' is no level; there are: {}", name, known);
      return false;
    }
  }
  return true;
}

bool select_cases(const SessionOptions& options, const Discovery& found, Plan* out_plan,
                  std::string* error) {
  std::set<std::string> failed;
  const bool only_failed = !options.rerun_failed.empty();
  if (only_failed && !read_failed(options.rerun_failed, &failed, error)) return false;
  std::map<Level, std::vector<std::string>> fitting;  // ids of the matching cases of each level
  for (const Case& each : found.cases->all()) {
    const Level level = level_of(each.id);
    if (std::find(out_plan->levels.begin(), out_plan->levels.end(), level) ==
        out_plan->levels.end()) {
      continue;
    }
    if (only_failed && failed.count(each.id) == 0) {
      out_plan->filtered = true;
      continue;
    }
    if (each.full && options.profile != "full" && !only_failed) continue;
    if (!options.filter.empty() && !glob_matches(options.filter, each.id)) {
      out_plan->filtered = true;
      continue;
    }
    fitting[level].push_back(each.id);
  }
  for (const auto& [level, ids] : fitting) {
    // A level with fewer cases than |options.every| has one in the sample too.
    const size_t first = options.first % std::min<size_t>(options.every, ids.size());
    for (size_t i = first; i < ids.size(); i += options.every) out_plan->ids.push_back(ids[i]);
    out_plan->filtered = out_plan->filtered || options.every > 1;
  }
  // Without a device a level above null has no cases, which is not an error.
  if (out_plan->ids.empty() && only_failed) {
    *error = fmt::format("no case of {} failed that there still is", options.rerun_failed);
    return false;
  }
  if (out_plan->ids.empty() && (!options.filter.empty() || found.found.target.has_device())) {
    *error = fmt::format(
        "filter '{}' selects none of {} cases (profile {}; see `keel conform "
        "list`)",
        options.filter, found.cases->all().size(), options.profile);
    return false;
  }
  return true;
}

}  // namespace keel::conformance
