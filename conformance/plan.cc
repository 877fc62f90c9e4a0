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

// Takes from |report| each member that the command line does not give: false of is_given(option).
// Reports of earlier versions lack some.
class ReportOptions {
 public:
  ReportOptions(const JsonValue& report, const std::function<bool(const char*)>& is_given)
      : report_(report), is_given_(is_given) {}

  // Throws JsonError, like the functions below.
  void settings(SessionOptions* options) const {
    RunSettings& settings = options->settings;
    count("--seed", "seed", &settings.seed);
    count("--timeout", "timeout_seconds", &settings.timeout_seconds);
    count("--device", "ordinal", &settings.choice.ordinal);
    text("--kernels", "kernels", &settings.choice.kernels);
    text("--profile", "profile", &options->profile);
    if (takes("--emulated", "emulated")) {
      settings.choice.emulated = report_.at("emulated").boolean();
    }
  }
  void cases(SessionOptions* options) const {
    text("--filter", "filter", &options->filter);
    count("--every", "every", &options->every);
    options->every = std::max(options->every, 1U);
    if (!takes("--level", "levels")) return;
    for (const JsonValue& each : report_.at("levels").elements()) {
      options->levels.push_back(each.at("level").text());
    }
  }

 private:
  bool takes(const char* option, const char* member) const {
    return !is_given_(option) && report_.has(member);
  }
  template <typename Number>
  void count(const char* option, const char* member, Number* out_number) const {
    if (takes(option, member)) *out_number = report_.at(member).count<Number>();
  }
  void text(const char* option, const char* member, std::string* out_text) const {
    if (takes(option, member)) *out_text = report_.at(member).text();
  }

  const JsonValue& report_;
  const std::function<bool(const char*)>& is_given_;
};

}  // namespace

bool take_from_report(const std::function<bool(const char* option)>& is_given,
                      SessionOptions* options, std::string* error) {
  const std::string& path = options->rerun_failed;
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
    const JsonValue report(json);
    const std::vector<JsonValue> results = report.at("results").elements();
    for (const JsonValue& each : results) {
      const auto outcome = find_outcome(each.at("outcome").text());
      if (outcome && is_failure(*outcome)) options->failed.insert(each.at("id").text());
    }
    if (options->failed.empty()) {
      *error = fmt::format("no case of {} failed", path);
      return false;
    }
    const ReportOptions taken(report, is_given);
    taken.settings(options);
    // The report of a plugin that did not load has this case alone, and no device.
    if (results.size() == 1 && options->failed.count("null/load") != 0 &&
        report.at("target").at("device").text().empty()) {
      options->failed.clear();
      taken.cases(options);
    }
  } catch (const JsonError& wrong) {
    *error = fmt::format("{} is no report of `keel conform run --json`: {}", path, wrong.what());
    return false;
  }
  return true;
}

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
  const bool only_failed = !options.failed.empty();
  std::map<Level, std::vector<std::string>> fitting;  // ids of the matching cases of each level
  for (const Case& each : found.cases->all()) {
    const Level level = level_of(each.id);
    if (std::find(out_plan->levels.begin(), out_plan->levels.end(), level) ==
        out_plan->levels.end()) {
      continue;
    }
    if (only_failed && options.failed.count(each.id) == 0) {
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
