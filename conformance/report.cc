// SPDX-License-Identifier: Apache-2.0
#include "conformance/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/xml_text.h"

namespace keel::conformance {

namespace {

using Json = nlohmann::json;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

bool is_empty(const LevelSummary& level) {
  return std::all_of(level.counts.begin(), level.counts.end(),
                     [](uint32_t count) { return count == 0; });
}

// Lists why cases are unsupported, by level and reason.
std::string unsupported_text(const Report& report) {
  std::map<std::pair<Level, std::string>, uint32_t> groups;
  for (const CaseResult& result : report.results) {
    if (result.outcome != Outcome::kUnsupported) continue;
    ++groups[{level_of(result.id), result.message.substr(0, result.message.find('\n'))}];
  }
  std::string text = groups.empty() ? "" : "\nunsupported\n";
  for (const auto& [group, count] : groups) {
    text += fmt::format("  {:<13}{:>5}  {}\n", level_info(group.first).name, count, group.second);
  }
  return text;
}

// Formats how many passes rest on the worker's statements alone, without compared bytes.
std::string evidence_text(const Report& report) {
  uint32_t passed = 0;
  uint32_t by_word = 0;
  for (const CaseResult& result : report.results) {
    if (result.outcome != Outcome::kPass) continue;
    ++passed;
    by_word += result.evidence.bytes == 0 ? 1 : 0;
  }
  if (by_word == 0) return {};
  return fmt::format(
      "{} of {} passes rest on statuses, values and times that the worker reported; of the others "
      "bytes were compared\n",
      by_word, passed);
}

std::string junit_case(const Report& report, const CaseResult& result, const char* level) {
  std::string out =
      fmt::format(R"(    <testcase classname="{}.{}" name="{}" time="{:.3f}")",
                  xml_text(report.target.backend), level, xml_text(result.id), result.seconds);
  const std::string message = xml_text(result.message);
  switch (result.outcome) {
    case Outcome::kPass:
      return out + "/>\n";
    case Outcome::kUnsupported:
    case Outcome::kWaived:
      return out + fmt::format(">\n      <skipped message=\"{}: {}\"/>\n    </testcase>\n",
                               outcome_name(result.outcome), message);
    case Outcome::kFail:
      return out + fmt::format(">\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                               message, xml_text(report.repeat(result.id)));
    default:
      return out + fmt::format(
                       ">\n      <error type=\"{}\" message=\"{}\">{}</error>\n"
                       "    </testcase>\n",
                       outcome_name(result.outcome), message, xml_text(report.repeat(result.id)));
  }
}

}  // namespace

std::string Report::incomplete() const {
  if (stopped.empty()) return {};
  return fmt::format("{}: {} of {} cases have run", stopped, results.size(), chosen);
}

std::string failure_text(const Report& report, const CaseResult& result) {
  return fmt::format("{:<8}{}\n{}\n    {}\n", outcome_name(result.outcome), result.id,
                     indented(result.message), report.repeat(result.id));
}

std::string head_text(const Report& report) {
  const Target& target = report.target;
  std::string text =
      fmt::format("{} {} by {}, {}\n", target.backend, target.version, target.vendor, target.path);
  if (target.has_device()) {
    text += fmt::format("{}: {}, {}\nclaims: {}\n", target.device, target.device_name,
                        target.architecture.empty() ? "architecture unknown" : target.architecture,
                        capability_text(target.capabilities));
    const uint64_t not_claimed = known_capabilities() & ~target.capabilities;
    text += fmt::format("not claimed: {}\n", capability_text(not_claimed));
  } else {
    text += fmt::format("no device: {}\n", target.no_device);
  }
  if (report.settings.choice.emulated) {
    text += "emulated: the vendor's libraries are Keel's own, over an emulated chip\n";
  }
  if (!report.settings.choice.kernels.empty()) {
    text += fmt::format("kernels: those of {}\n", report.settings.choice.kernels);
  }
  text += fmt::format("seed {}, profile {}\n", report.settings.seed, report.profile);
  if (report.every > 1) {
    text += fmt::format("a sample: one of {} cases of each level, which certifies nothing\n",
                        report.every);
  }
  return text;
}

std::string summary_text(const Report& report) {
  std::string text =
      fmt::format("\n{:<13}{:>6}{:>6}{:>13}{:>8}{:>7}{:>9}{:>9}  {}\n", "level", "pass", "fail",
                  "unsupported", "waived", "crash", "timeout", "time", "certified");
  for (const LevelSummary& level : report.levels) {
    if (report.target.has_device() && is_empty(level)) continue;
    text += fmt::format("{:<13}{:>6}{:>6}{:>13}{:>8}{:>7}{:>9}{:>7.1f} s  {}\n",
                        level_info(level.level).name, level.count(Outcome::kPass),
                        level.count(Outcome::kFail), level.count(Outcome::kUnsupported),
                        level.count(Outcome::kWaived), level.count(Outcome::kCrash),
                        level.count(Outcome::kTimeout), level.seconds,
                        level.certified ? "yes" : "no: " + level.why_not);
  }
  text += unsupported_text(report) + evidence_text(report);
  if (report.target.has_device()) {
    text += fmt::format("how fast: keel conform perf {}\n", choice_options(report.settings.choice));
  }
  for (const std::string& note : report.notes) text += note + "\n";
  if (!report.stopped.empty()) text += report.incomplete() + "\n";
  return text;
}

std::string to_json_text(const Report& report) {
  Json levels = Json::array();
  for (const LevelSummary& level : report.levels) {
    const LevelInfo& info = level_info(level.level);
    Json counts;
    for (size_t i = 0; i < kOutcomeCount; ++i) {
      counts[outcome_name(static_cast<Outcome>(i))] = level.counts[i];
    }
    levels.push_back({{"level", info.name},
                      {"mandatory_capabilities", capability_names(info.mandatory_capabilities)},
                      {"counts", counts},
                      {"seconds", level.seconds},
                      {"certified", level.certified},
                      {"why_not", level.why_not}});
  }
  Json results = Json::array();
  for (const CaseResult& result : report.results) {
    Json entry = {{"id", result.id},
                  {"level", level_info(level_of(result.id)).name},
                  {"outcome", outcome_name(result.outcome)},
                  {"seconds", result.seconds},
                  {"message", result.message},
                  {"observed_bytes", result.evidence.bytes},
                  {"observed_words", result.evidence.words}};
    if (result.outcome != Outcome::kPass && result.outcome != Outcome::kUnsupported) {
      entry["repeat"] = report.repeat(result.id);
    }
    results.push_back(std::move(entry));
  }
  return dump({{"format", Report::kFormat},
               {"date", report.date},
               {"target", report.target},
               {"plugin_sha256", report.plugin_sha256},
               {"ordinal", report.settings.choice.ordinal},
               {"emulated", report.settings.choice.emulated},
               {"kernels", report.settings.choice.kernels},
               {"seed", report.settings.seed},
               {"profile", report.profile},
               {"filter", report.filter},
               {"timeout_seconds", report.settings.timeout_seconds},
               {"within_seconds", report.within_seconds},
               {"every", report.every},
               {"cases", report.chosen},
               {"not_run", report.chosen - report.results.size()},
               {"stopped", report.stopped},
               {"levels", levels},
               {"notes", report.notes},
               {"results", results}});
}

std::string to_junit_text(const Report& report) {
  std::string text =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"keel conform\">\n";
  for (const LevelSummary& level : report.levels) {
    const char* name = level_info(level.level).name;
    uint32_t total = 0;
    for (const uint32_t count : level.counts) total += count;
    text += fmt::format(R"(  <testsuite name="{}" tests="{}" failures="{}" errors="{}" )"
                        "skipped=\"{}\" time=\"{:.3f}\">\n",
                        name, total, level.count(Outcome::kFail),
                        level.count(Outcome::kCrash) + level.count(Outcome::kTimeout),
                        level.count(Outcome::kUnsupported) + level.count(Outcome::kWaived),
                        level.seconds);
    for (const CaseResult& result : report.results) {
      if (level_of(result.id) == level.level) text += junit_case(report, result, name);
    }
    text += "  </testsuite>\n";
  }
  if (!report.stopped.empty()) {  // otherwise a reader would see a run without errors
    text += fmt::format(
        R"(  <testsuite name="run" tests="1" failures="0" errors="1" skipped="0" time="0">)"
        "\n    <testcase classname=\"{}.run\" name=\"complete\" time=\"0\">\n"
        "      <error type=\"incomplete\" message=\"{}\"/>\n    </testcase>\n  </testsuite>\n",
        xml_text(report.target.backend), xml_text(report.incomplete()));
  }
  return text + "</testsuites>\n";
}

}  // namespace keel::conformance
