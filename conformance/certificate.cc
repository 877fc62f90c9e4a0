// SPDX-License-Identifier: Apache-2.0
#include "conformance/certificate.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_value.h"
#include "base/strict_json.h"
#include "conformance/text_file.h"

namespace keel::conformance {

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr const char* kProves =
    "no mistake that the cases look for, and no cheap cheat: bytes were compared outside of the "
    "process that the plugin ran in; statuses and times are that process's word, and a plugin that "
    "changes the process is out of scope";

// Computes the digest without "digest", with sorted keys and no spaces, so that equal content has
// equal text.
std::string digest_of(Json certificate) {
  certificate.erase("digest");
  return sha256_of_text(certificate.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// Returns the first letter of each case's outcome, which no two outcomes share.
std::string outcomes_of(const Report& report, Level level) {
  std::string letters;
  for (const CaseResult& result : report.results) {
    if (level_of(result.id) == level) letters += outcome_name(result.outcome)[0];
  }
  return letters;
}

Json level_json(const Report& report, const LevelSummary& level) {
  Json json = {{"level", level_info(level.level).name}, {"certified", level.certified}};
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    json["counts"][outcome_name(static_cast<Outcome>(i))] = level.counts[i];
  }
  if (level.certified) {
    json["outcomes"] = outcomes_of(report, level.level);
  } else {
    json["why_not"] = level.why_not;
  }
  return json;
}

const char* outcome_of_letter(char letter) {
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    const char* const name = outcome_name(static_cast<Outcome>(i));
    if (name[0] == letter) return name;
  }
  return "unknown";
}

// Appends the waiver unless the list has it: a waiver may fit several cases.
void add_waiver(const Waiver& waiver, Json* list) {
  Json json = {{"case", waiver.case_glob},
               {"backend", waiver.backend},
               {"reason", waiver.reason},
               {"expires", waiver.expires}};
  if (std::find(list->begin(), list->end(), json) == list->end()) list->push_back(std::move(json));
}

}  // namespace

std::string sha256_of_text(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    return {};
  }
  return fmt::format("{:02x}", fmt::join(digest.data(), digest.data() + size, ""));
}

bool sha256_of_file(const std::string& path, std::string* out_digest, std::string* error) {
  std::string content;
  if (!read_file(path, &content)) {
    *error = path + " cannot be read";
    return false;
  }
  *out_digest = sha256_of_text(content);
  return true;
}

std::string results_digest(const Report& report) {
  std::string text;
  for (const CaseResult& result : report.results) {
    const bool counts =
        std::any_of(report.levels.begin(), report.levels.end(), [&](const LevelSummary& level) {
          return level.certified && level.level == level_of(result.id);
        });
    if (counts) text += fmt::format("{} {}\n", result.id, outcome_name(result.outcome));
  }
  return sha256_of_text(text);
}

std::string first_difference(const Certificate& certificate, const Report& report) {
  for (const auto& [level, then] : certificate.outcomes) {
    const std::string now = outcomes_of(report, level);
    if (now.size() != then.size()) continue;  // other cases, or some did not run
    const auto [differs, letter] = std::mismatch(now.begin(), now.end(), then.begin());
    if (differs == now.end()) continue;
    auto left = differs - now.begin();
    for (const CaseResult& result : report.results) {
      if (level_of(result.id) != level || left-- > 0) continue;
      return fmt::format("{}: {}, then {}", result.id, outcome_name(result.outcome),
                         outcome_of_letter(*letter));
    }
  }
  for (const CaseResult& result : report.results) {
    if (is_failure(result.outcome)) {
      return fmt::format("{}: {}", result.id, outcome_name(result.outcome));
    }
  }
  for (const LevelSummary& level : report.levels) {
    if (!level.certified) {
      return fmt::format("level {}: {}", level_info(level.level).name, level.why_not);
    }
  }
  for (const auto& [level, then] : certificate.outcomes) {
    const size_t now = outcomes_of(report, level).size();
    if (now != then.size()) {
      return fmt::format("level {}: {} cases, then {}", level_info(level).name, now, then.size());
    }
  }
  return "other cases than those of the certificate";
}

std::string failures_text(const Report& report) {
  bool is_real = false;
  bool is_injected = false;
  for (const CaseResult& result : report.results) {
    if (result.outcome != Outcome::kPass) continue;
    const bool is_alone = result.id.starts_with("async/tables/failure/alone/");
    is_real = is_real || is_alone;
    is_injected = is_injected || (!is_alone && result.id.starts_with("async/tables/failure/"));
  }
  if (is_real) return is_injected ? "real and injected" : "real";
  return is_injected ? "injected" : "untested";
}

std::string certificate_text(const Report& report) {
  Json levels = Json::array();
  for (const LevelSummary& level : report.levels) levels.push_back(level_json(report, level));
  Json waived = Json::array();
  Json waivers = Json::array();
  for (const CaseResult& result : report.results) {
    if (result.outcome == Outcome::kWaived) {
      waived.push_back({result.id, result.message});
      if (result.waiver) add_waiver(*result.waiver, &waivers);
    }
  }
  const RunSettings& settings = report.settings;
  Json certificate = {{"certificate", "keel conform"},
                      {"format", kFormat},
                      {"date", report.date},
                      {"target", report.target},
                      {"plugin_sha256", report.plugin_sha256},
                      {"choice",
                       {{"backend", settings.choice.backend},
                        {"plugin", settings.choice.plugin},
                        {"ordinal", settings.choice.ordinal},
                        {"emulated", settings.choice.emulated},
                        {"kernels", settings.choice.kernels}}},
                      {"seed", settings.seed},
                      {"timeout_seconds", settings.timeout_seconds},
                      {"profile", report.profile},
                      {"levels", levels},
                      {"waived", waived},
                      {"waivers", waivers},
                      {"failures", failures_text(report)},
                      {"proves", kProves},
                      {"results_sha256", results_digest(report)}};
  certificate["digest"] = digest_of(certificate);
  return certificate.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool read_certificate(const std::string& text, Certificate* out_certificate, std::string* error) {
  Json json;
  if (!parse_json(text, &json, error)) return false;
  if (!json.is_object() || json.value("certificate", Json()) != "keel conform") {
    *error = "this is no certificate of keel conform";
    return false;
  }
  if (json.value("format", Json()) != kFormat) {
    *error = fmt::format("format {} is not {}", json.value("format", Json()).dump(), kFormat);
    return false;
  }
  if (json.value("digest", Json()) != digest_of(json)) {
    *error = "the digest does not fit: the certificate was changed";
    return false;
  }
  try {
    const JsonValue root(json);
    Certificate certificate;
    certificate.backend = root.at("target").at("backend").text();
    certificate.plugin_path = root.at("target").at("path").text();
    certificate.plugin_sha256 = root.at("plugin_sha256").text();
    certificate.results_sha256 = root.at("results_sha256").text();
    certificate.profile = root.at("profile").text();
    RunSettings& settings = certificate.settings;
    settings.seed = root.at("seed").count<uint64_t>();
    settings.timeout_seconds = root.at("timeout_seconds").count<uint32_t>();
    const JsonValue choice = root.at("choice");
    settings.choice.backend = choice.at("backend").text();
    settings.choice.plugin = choice.at("plugin").text();
    settings.choice.ordinal = choice.at("ordinal").count<uint32_t>();
    // Certificates written before emulated libraries existed lack this member.
    settings.choice.emulated = choice.has("emulated") && choice.at("emulated").boolean();
    // Certificates written before --kernels existed lack this member.
    if (choice.has("kernels")) settings.choice.kernels = choice.at("kernels").text();
    for (const JsonValue& level : root.at("levels").elements()) {
      if (!level.at("certified").boolean()) continue;
      certificate.levels.push_back(level.at("level").text());
      const auto known = find_level(certificate.levels.back());
      if (known && level.has("outcomes")) {  // earlier certificates lack this member
        certificate.outcomes[*known] = level.at("outcomes").text();
      }
    }
    // Earlier certificates lack this member.
    certificate.failures = root.has("failures") ? root.at("failures").text() : "untested";
    certificate.waived = root.at("waived").elements().size();
    *out_certificate = std::move(certificate);
  } catch (const JsonError& wrong) {
    *error = wrong.what();
    return false;
  }
  return true;
}

}  // namespace keel::conformance
