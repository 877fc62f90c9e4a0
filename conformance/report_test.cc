// SPDX-License-Identifier: Apache-2.0
// The formats of a report, and the certificate.
#include "conformance/report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "conformance/certificate.h"
#include "conformance/emulated_libraries.h"
#include "conformance/support_table.h"

namespace keel::conformance {
namespace {

using Json = nlohmann::json;

Report sample() {
  Report report;
  report.target.backend = "chip";
  report.target.path = "/nowhere/libkeel_chip.so";
  report.target.device = "chip:0";
  report.target.capabilities = KEEL_CAPABILITY_PINNED;
  report.plugin_sha256 = sha256_of_text("plugin");
  report.settings.choice.backend = "chip";
  report.settings.seed = 7;
  report.profile = "quick";
  report.date = "2026-01-02";
  report.results = {{"null/load", Outcome::kPass, 0.5, ""},
                    {"core/a", Outcome::kFail, 0, "1 < 2 & \"that\"\n\x01\xff end"},
                    {"core/b", Outcome::kCrash, 0, "killed"},
                    {"core/c", Outcome::kUnsupported, 0, "not claimed"},
                    {"core/d", Outcome::kTimeout, 20, "no end"}};
  report.chosen = report.results.size();
  report.full_cases = {"core/b"};
  report.levels = summarise(report.results,
                            {{Level::kNull, Level::kCore}, false, "", report.target.capabilities});
  return report;
}

// Checks that tags nest, attributes are quoted, and no bare & or < and no control character
// remains.
testing::AssertionResult is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t i = 0; i < xml.size(); ++i) {
    const auto byte = static_cast<unsigned char>(xml[i]);
    if (byte < 0x20 && byte != '\n') return testing::AssertionFailure() << "byte at " << i;
    if (byte == '&' && xml.find(';', i) > xml.find_first_of(" <&\"", i + 1)) {
      return testing::AssertionFailure() << "bare & at " << i;
    }
    if (byte != '<') continue;
    const size_t end = xml.find('>', i);
    if (end == std::string::npos) return testing::AssertionFailure() << "no > after " << i;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    i = end;
    if (tag.find('<') != std::string::npos) return testing::AssertionFailure() << tag;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) {
      return testing::AssertionFailure() << tag;
    }
    if (tag[0] == '?' || tag.back() == '/') continue;
    const std::string name = tag.substr(0, tag.find(' '));
    if (name[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != name) {
      return testing::AssertionFailure() << name;
    } else {
      open.pop_back();
    }
  }
  if (!open.empty()) return testing::AssertionFailure() << open.back() << " stays open";
  return testing::AssertionSuccess();
}

TEST(Report, JunitIsWellFormedAndCounts) {
  const std::string junit = to_junit_text(sample());
  EXPECT_TRUE(is_well_formed(junit)) << junit;
  EXPECT_NE(junit.find(R"(name="core" tests="4" failures="1" errors="2" skipped="1")"),
            std::string::npos)
      << junit;
  EXPECT_NE(junit.find("1 &lt; 2 &amp; &quot;that&quot;&#10;??"), std::string::npos) << junit;
}

TEST(Report, NamesTheCommandThatMeasuresSpeed) {
  Report report = sample();
  report.settings.choice.ordinal = 1;
  EXPECT_NE(summary_text(report).find("how fast: keel conform perf --backend chip --device 1\n"),
            std::string::npos)
      << summary_text(report);
  report.target.device = "";
  EXPECT_EQ(summary_text(report).find("perf"), std::string::npos);
}

// Every format must say that the run is incomplete: a reader of one format must not take it for a
// run without failures.
TEST(Report, SaysInEachFormWhatWasNotRun) {
  Report report = sample();
  report.results.resize(1);
  report.within_seconds = 60;
  report.stopped = "out of time after 60 s";
  Selection selection = {{Level::kNull}, false, "", report.target.capabilities};
  selection.incomplete = report.stopped;
  report.levels = summarise(report.results, selection);
  const std::string line = "out of time after 60 s: 1 of 5 cases have run";
  EXPECT_TRUE(summary_text(report).ends_with(line + "\n")) << summary_text(report);
  const Json json = Json::parse(to_json_text(report));
  EXPECT_EQ(json.at("within_seconds"), 60);
  EXPECT_EQ(json.at("cases"), 5);
  EXPECT_EQ(json.at("not_run"), 4);
  EXPECT_EQ(json.at("stopped"), "out of time after 60 s");
  EXPECT_EQ(json.at("levels")[0].at("certified"), false);
  const std::string junit = to_junit_text(report);
  EXPECT_TRUE(is_well_formed(junit)) << junit;
  EXPECT_NE(junit.find("<error type=\"incomplete\" message=\"" + line), std::string::npos) << junit;
}

TEST(Report, WellFormednessIsNoEmptyCheck) {
  EXPECT_FALSE(is_well_formed("<a><b></a></b>"));
  EXPECT_FALSE(is_well_formed("<a>1 & 2</a>"));
  EXPECT_FALSE(is_well_formed("<a x=\"1></a>"));
}

TEST(Report, JsonHasFormatResultsAndRepeatCommands) {
  const Json json = Json::parse(to_json_text(sample()));
  EXPECT_EQ(json.at("format"), 1);
  EXPECT_EQ(json.at("results").size(), 5U);
  EXPECT_FALSE(json.at("results")[0].contains("repeat"));
  EXPECT_EQ(json.at("results")[1].at("repeat"),
            "keel conform run --backend chip --filter 'core/a' --seed 7");
  EXPECT_EQ(json.at("results")[2].at("repeat"),
            "keel conform run --backend chip --filter 'core/b' --seed 7 --profile full");
  EXPECT_EQ(json.at("levels")[1].at("counts").at("timeout"), 1);
  EXPECT_EQ(json.at("target").at("capability_names"), Json({"PINNED"}));
}

TEST(Certificate, IsReadBack) {
  Certificate certificate;
  std::string error;
  ASSERT_TRUE(read_certificate(certificate_text(sample()), &certificate, &error)) << error;
  EXPECT_EQ(certificate.backend, "chip");
  EXPECT_EQ(certificate.levels, std::vector<std::string>{"null"});
  EXPECT_EQ(certificate.settings.seed, 7U);
  EXPECT_EQ(certificate.plugin_sha256, sha256_of_text("plugin"));
  EXPECT_EQ(certificate.failures, "untested");
}

// A report of two waived cases under one waiver, and of an unsupported one.
Report waived_sample() {
  Report report = sample();
  report.results.resize(4);
  report.results[1].outcome = Outcome::kPass;
  report.results.push_back({"core/e", Outcome::kFail, 0, "wrong"});
  report.results.push_back({"core/f", Outcome::kFail, 0, "wrong"});
  Waivers waivers;
  waivers.active = {{"core/[bef]", "chip", "known", "2999-12-31"}};
  apply_waivers(waivers, &report.results, &report.notes);
  report.levels = summarise(report.results,
                            {{Level::kNull, Level::kCore}, false, "", report.target.capabilities});
  return report;
}

TEST(Certificate, HoldsTheWaiversThatItRestsOn) {
  const std::string text = certificate_text(waived_sample());
  Certificate certificate;
  std::string error;
  ASSERT_TRUE(read_certificate(text, &certificate, &error)) << error;
  EXPECT_EQ(certificate.levels, (std::vector<std::string>{"null", "core"}));
  EXPECT_EQ(certificate.waived, 3U);
  Waivers waivers;
  ASSERT_TRUE(parse_waivers(text, "chip", "2026-01-03", &waivers, &error)) << error;
  ASSERT_EQ(waivers.active.size(), 1U);
  EXPECT_EQ(waivers.active[0].case_glob, "core/[bef]");
  EXPECT_EQ(waivers.active[0].reason, "known");
  Waivers expired;
  ASSERT_TRUE(parse_waivers(text, "chip", "3000-01-01", &expired, &error)) << error;
  EXPECT_TRUE(expired.active.empty());
}

TEST(Certificate, NamesTheFirstCaseThatDiffers) {
  Certificate certificate;
  std::string error;
  ASSERT_TRUE(read_certificate(certificate_text(waived_sample()), &certificate, &error)) << error;
  const auto difference = [&](size_t index, Outcome outcome) {
    Report report = waived_sample();
    report.results[index].outcome = outcome;
    return first_difference(certificate, report);
  };
  EXPECT_EQ(difference(1, Outcome::kFail), "core/a: fail, then pass");
  EXPECT_EQ(difference(2, Outcome::kPass), "core/b: pass, then waived");
  EXPECT_EQ(difference(3, Outcome::kPass), "core/c: pass, then unsupported");
  Report shorter = waived_sample();
  shorter.results.pop_back();
  EXPECT_EQ(first_difference(certificate, shorter), "level core: 4 cases, then 5");
  Report stopped = waived_sample();
  stopped.levels[1].certified = false;
  stopped.levels[1].why_not = "out of time";
  EXPECT_EQ(first_difference(certificate, stopped), "level core: out of time");
  certificate.outcomes.clear();  // of an earlier version
  EXPECT_EQ(difference(1, Outcome::kTimeout), "core/a: timeout");
}

TEST(Certificate, SaysHowWorkWasMadeToFail) {
  const auto failures_with = [](std::vector<CaseResult> results) {
    Report report = sample();
    for (CaseResult& each : results) report.results.push_back(std::move(each));
    Certificate certificate;
    std::string error;
    EXPECT_TRUE(read_certificate(certificate_text(report), &certificate, &error)) << error;
    return certificate.failures;
  };
  const CaseResult injected = {"async/tables/failure/sticks", Outcome::kPass, 0, ""};
  const CaseResult library = {"async/tables/failure/library/copy_fails", Outcome::kPass, 0, ""};
  const CaseResult real = {"async/tables/failure/alone/unmapped_address", Outcome::kPass, 0, ""};
  EXPECT_EQ(failures_with({injected}), "injected");
  EXPECT_EQ(failures_with({library}), "injected");
  EXPECT_EQ(failures_with({real}), "real");
  EXPECT_EQ(failures_with({real, injected}), "real and injected");
  EXPECT_EQ(failures_with({{injected.id, Outcome::kUnsupported, 0, ""}}), "untested");
}

TEST(Certificate, RefusesEveryChange) {
  const Json original = Json::parse(certificate_text(sample()));
  for (const auto& [key, value] : original.items()) {
    Json changed = original;
    changed[key] = "something else";
    Certificate certificate;
    std::string error;
    EXPECT_FALSE(read_certificate(changed.dump(), &certificate, &error)) << key;
    changed.erase(key);
    EXPECT_FALSE(read_certificate(changed.dump(), &certificate, &error)) << key;
    EXPECT_FALSE(error.empty());
  }
  Json promoted = original;
  promoted["levels"][1]["certified"] = true;
  Certificate certificate;
  std::string error;
  EXPECT_FALSE(read_certificate(promoted.dump(), &certificate, &error));
  EXPECT_NE(error.find("digest"), std::string::npos);
  EXPECT_FALSE(read_certificate("[]", &certificate, &error));
}

// The recursion of the JSON library would overflow the stack.
TEST(Certificate, IsRefusedWhenItIsTooDeep) {
  const std::string brackets = std::string(500'000, '[') + std::string(500'000, ']');
  Certificate certificate;
  std::string error;
  EXPECT_FALSE(read_certificate(
      "{\"certificate\": \"keel conform\", \"format\": 1, \"x\": " + brackets + "}", &certificate,
      &error));
  EXPECT_FALSE(error.empty());
}

// Uses the digest of the changed text, as a forger would.
TEST(Certificate, NumbersThatFitNoMemberAreRefused) {
  for (const Json& seed : {Json(1e300), Json(-1), Json(0.5), Json("7"), Json(nullptr)}) {
    Json changed = Json::parse(certificate_text(sample()));
    changed["seed"] = seed;
    changed.erase("digest");
    changed["digest"] = sha256_of_text(changed.dump());
    Certificate certificate;
    std::string error;
    EXPECT_FALSE(read_certificate(changed.dump(), &certificate, &error)) << seed;
    EXPECT_NE(error.find("seed is "), std::string::npos) << error;
    EXPECT_NE(error.find(", not a whole number from 0 to "), std::string::npos) << error;
  }
}

// A missing member or a member of a wrong type, with a matching digest.
TEST(Certificate, WhatIsWrongIsToldInPlainWords) {
  const struct {
    const char* pointer;
    Json value;  // null: remove the member
    std::string expected;
  } cases[] = {
      {"/target/backend", nullptr, "target.backend is missing"},
      {"/target", 7, "target is 7, not an object"},
      {"/plugin_sha256", true, "plugin_sha256 is true, not a string"},
      {"/levels", "all", "levels is a string, not an array"},
      {"/levels/1/certified", 1, "levels[1].certified is 1, not true or false"},
      {"/choice/emulated", "no", "choice.emulated is a string, not true or false"},
  };
  for (const auto& [pointer, value, expected] : cases) {
    Json changed = Json::parse(certificate_text(sample()));
    const Json::json_pointer at(pointer);
    if (value.is_null()) {
      changed.at(at.parent_pointer()).erase(at.back());
    } else {
      changed.at(at) = value;
    }
    changed.erase("digest");
    changed["digest"] = sha256_of_text(changed.dump());
    Certificate certificate;
    std::string error;
    EXPECT_FALSE(read_certificate(changed.dump(), &certificate, &error)) << pointer;
    EXPECT_EQ(error, expected);
  }
}

// The digest would cover only one of two equal keys.
TEST(Certificate, TextsOfTwoContentsAreRefused) {
  const std::string whole = certificate_text(sample());
  const auto error_of = [](const std::string& text) {
    Certificate certificate;
    std::string error;
    EXPECT_FALSE(read_certificate(text, &certificate, &error)) << text;
    return error;
  };
  EXPECT_EQ(error_of("{\"seed\": 1, " + whole.substr(1)), "the key 'seed' is there twice");
  EXPECT_EQ(error_of("\xef\xbb\xbf" + whole), "it begins with a byte-order mark");
  EXPECT_NE(error_of(whole + std::string("\0", 1)).find("NUL"), std::string::npos);
  EXPECT_NE(error_of(whole + "{}").find("more text is behind the end"), std::string::npos);
  EXPECT_NE(error_of(whole.substr(0, 40)).find("ends too early"), std::string::npos);
}

TEST(SupportTable, SaysWhatIsWrongWithWhichFile) {
  const std::string file = testing::TempDir() + "keel_support_table_wrong.json";
  const auto error_of = [&](const std::string& text) {
    std::ofstream(file, std::ios::trunc) << text;
    testing::internal::CaptureStderr();
    EXPECT_EQ(print_support_table({file}), 2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(error_of("{"), file + ": not a report: it ends too early, at line 1, column 2\n");
  EXPECT_EQ(error_of("[1]"), file + ": not a report of format 1\n");
  EXPECT_EQ(error_of("{\"format\": 1}"), file + ": levels is missing\n");
  const std::string whole = to_json_text(sample());
  EXPECT_EQ(error_of("{\"date\": \"\", " + whole.substr(1)),
            file + ": not a report: the key 'date' is there twice\n");
  Json json = Json::parse(whole);
  json["levels"][0]["counts"]["pass"] = "all";
  EXPECT_EQ(error_of(json.dump()), file +
                                       ": levels[0].counts.pass is a string, not a whole number "
                                       "from 0 to 4294967295\n");
  std::remove(file.c_str());
  testing::internal::CaptureStderr();
  EXPECT_EQ(print_support_table({file}), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), file + ": cannot be read\n");
}

// Three numbers that fit an int each, but whose sum does not.
TEST(SupportTable, AddsUpWhatNoIntHolds) {
  Json json = Json::parse(to_json_text(sample()));
  for (Json& level : json["levels"]) {
    for (const char* outcome : {"fail", "crash", "timeout"}) level["counts"][outcome] = INT32_MAX;
  }
  const std::string file = testing::TempDir() + "keel_support_table.json";
  std::ofstream(file) << json;
  testing::internal::CaptureStdout();
  EXPECT_EQ(print_support_table({file}), 0);
  EXPECT_NE(testing::internal::GetCapturedStdout().find(" of 644245094"), std::string::npos);
  json["levels"][0]["counts"]["pass"] = 1e300;
  std::ofstream(file) << json;
  EXPECT_EQ(print_support_table({file}), 2);
  std::remove(file.c_str());
}

TEST(SupportTable, SaysWhatOperatorsWereComputedBy) {
  const std::string file = testing::TempDir() + "keel_support_table_proof.json";
  const std::string marshalled = marshalling_of("cublaslt.matmul");
  const CaseResult own = {"ops/add", Outcome::kPass, 0, ""};
  const CaseResult library = {"ops/matmul", Outcome::kPass, 0, marshalled};
  const CaseResult wrong = {"ops/matmul", Outcome::kFail, 0, marshalled};
  const CaseResult other = {"core/d", Outcome::kPass, 0, marshalled};
  const struct {
    bool emulated;
    std::vector<CaseResult> results;
    std::string proof;
  } reports[] = {
      {false, {own}, "real"},
      {true, {other, wrong}, "emulated"},
      {true, {own, wrong}, "own source emulated"},
      {true, {library, other}, "marshalling only"},
      {true, {own, library, own}, "own source emulated, 1 of 3 operators' cases marshalling only"},
  };
  for (const auto& [emulated, results, proof] : reports) {
    Report report = sample();
    report.target.device_name = "Chip 9";
    report.settings.choice.emulated = emulated;
    report.results = results;
    std::ofstream(file) << to_json_text(report);
    testing::internal::CaptureStdout();
    EXPECT_EQ(print_support_table({file}), 0);
    const std::string table = testing::internal::GetCapturedStdout();
    EXPECT_NE(table.find("| chip | Chip 9 | - | " + proof + " |"), std::string::npos) << table;
  }
  std::remove(file.c_str());
}

TEST(SupportTable, SaysWhatKernelsAreCompiledFor) {
  const std::string file = testing::TempDir() + "keel_support_table_compiled.json";
  const std::string compiled = testing::TempDir() + "keel_support_table_compiled.txt";
  Report report = sample();
  report.target.device_name = "Chip 9";
  std::ofstream(file) << to_json_text(report);
  std::ofstream(compiled) << "other: no\nchip: c7, c9\n";
  testing::internal::CaptureStdout();
  EXPECT_EQ(print_support_table({file}, compiled), 0);
  const std::string table = testing::internal::GetCapturedStdout();
  EXPECT_NE(table.find("| chip | Chip 9 | c7, c9 | real |"), std::string::npos) << table;
  std::remove(compiled.c_str());
  testing::internal::CaptureStderr();
  EXPECT_EQ(print_support_table({file}, compiled), 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), compiled + ": cannot be read\n");
  std::remove(file.c_str());
}

// The folder's name identifies emulated libraries, whoever sets the variable.
TEST(EmulatedLibraries, AreKnownByTheirFolder) {
  const std::filesystem::path root = testing::TempDir() + "emulated_libraries";
  const std::filesystem::path folder = root / "keel/emulated/chip9";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(root / "vendor");
  const auto is_emulated = [](const std::filesystem::path& value) {
    EXPECT_EQ(setenv("KEEL_CHIP9_LIBRARY_FOLDER", value.c_str(), 1), 0);
    return uses_emulated_libraries("chip9");
  };
  EXPECT_TRUE(is_emulated(folder));
  EXPECT_TRUE(is_emulated(folder.string() + "/"));
  EXPECT_TRUE(is_emulated(root / "vendor/../keel/emulated/chip9"));
  EXPECT_FALSE(uses_emulated_libraries("chip8"));
  EXPECT_FALSE(is_emulated(root / "vendor"));
  EXPECT_FALSE(is_emulated(root / "nowhere"));
  EXPECT_FALSE(is_emulated(""));
  unsetenv("KEEL_CHIP9_LIBRARY_FOLDER");
  EXPECT_FALSE(uses_emulated_libraries("chip9"));
  std::filesystem::remove_all(root);
}

TEST(Certificate, SaysWhatIsEmulatedAndIsRunAgainSo) {
  Report report = sample();
  report.settings.choice.emulated = true;
  Certificate certificate;
  std::string error;
  ASSERT_TRUE(read_certificate(certificate_text(report), &certificate, &error)) << error;
  EXPECT_TRUE(certificate.settings.choice.emulated);
  EXPECT_NE(head_text(report).find("emulated"), std::string::npos);
  EXPECT_NE(report.repeat("core/a").find(" --emulated"), std::string::npos);
}

TEST(Certificate, DigestIsSha256) {
  EXPECT_EQ(sha256_of_text("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Certificate, ResultsOfCertifiedLevelsCount) {
  Report report = sample();
  const std::string before = results_digest(report);
  report.results[1].outcome = Outcome::kPass;  // of a level that is not certified
  EXPECT_EQ(results_digest(report), before);
  report.results[0].outcome = Outcome::kUnsupported;
  EXPECT_NE(results_digest(report), before);
}

// By a library that the emulator replaces with the reference, and by kernels that run themselves.
TEST(EmulatedLibraries, WhatIsMarshalling) {
  EXPECT_TRUE(marshalling_of("cublaslt.matmul").starts_with(kMarshalling));
  EXPECT_TRUE(marshalling_of("rocblas.matmul").starts_with(kMarshalling));
  EXPECT_TRUE(marshalling_of("aclnn.matmul").starts_with(kMarshalling));
  EXPECT_EQ(marshalling_of("simt.matmul"), "");
  EXPECT_EQ(marshalling_of(""), "");
}

}  // namespace
}  // namespace keel::conformance
