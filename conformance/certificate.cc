// SPDX-License-Identifier: Apache-2.0
#include "conformance/certificate.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "conformance/json_count.h"

namespace keel::conformance {

namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;

// nlohmann copies and writes by recursion: without a limit, a file of brackets alone ends the
// stack. A certificate is three deep.
Json parse_shallow(const std::string& text) {
  constexpr int kDeepest = 16;
  bool is_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, Json&) {
    is_deep |= depth > kDeepest;
    return !is_deep;
  };
  const Json json = Json::parse(text, look, /*allow_exceptions=*/false);
  return is_deep ? Json() : json;
}

// Without "digest", keys sorted and no spaces: one text for one content.
std::string digest_of(Json certificate) {
  certificate.erase("digest");
  return sha256_of_text(certificate.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json level_json(const LevelSummary& level) {
  Json json = {{"level", level_info(level.level).name}, {"certified", level.certified}};
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    json["counts"][outcome_name(static_cast<Outcome>(i))] = level.counts[i];
  }
  if (!level.certified) json["why_not"] = level.why_not;
  return json;
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
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad()) {
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

std::string certificate_text(const Report& report) {
  Json levels = Json::array();
  for (const LevelSummary& level : report.levels) levels.push_back(level_json(level));
  Json waived = Json::array();
  for (const CaseResult& result : report.results) {
    if (result.outcome == Outcome::kWaived) waived.push_back({result.id, result.message});
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
                        {"emulated", settings.choice.emulated}}},
                      {"seed", settings.seed},
                      {"timeout_seconds", settings.timeout_seconds},
                      {"profile", report.profile},
                      {"levels", levels},
                      {"waived", waived},
                      {"results_sha256", results_digest(report)}};
  certificate["digest"] = digest_of(certificate);
  return certificate.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool read_certificate(const std::string& text, Certificate* out_certificate, std::string* error) {
  const Json json = parse_shallow(text);
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
    Certificate& certificate = *out_certificate;
    json.at("target").at("backend").get_to(certificate.backend);
    json.at("target").at("path").get_to(certificate.plugin_path);
    json.at("plugin_sha256").get_to(certificate.plugin_sha256);
    json.at("results_sha256").get_to(certificate.results_sha256);
    json.at("profile").get_to(certificate.profile);
    RunSettings& settings = certificate.settings;
    settings.seed = get_count<uint64_t>(json.at("seed"));
    settings.timeout_seconds = get_count<uint32_t>(json.at("timeout_seconds"));
    json.at("choice").at("backend").get_to(settings.choice.backend);
    json.at("choice").at("plugin").get_to(settings.choice.plugin);
    settings.choice.ordinal = get_count<uint32_t>(json.at("choice").at("ordinal"));
    // Certificates of before there were emulated libraries do not say.
    settings.choice.emulated = json.at("choice").value("emulated", false);
    for (const Json& level : json.at("levels")) {
      if (level.at("certified").get<bool>()) certificate.levels.push_back(level.at("level"));
    }
  } catch (const Json::exception& missing) {
    *error = missing.what();
    return false;
  }
  return true;
}

}  // namespace keel::conformance
