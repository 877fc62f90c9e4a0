// SPDX-License-Identifier: Apache-2.0
#include "conformance/waivers.h"

#include <gtest/gtest.h>

#include "conformance/result.h"

namespace keel::conformance {
namespace {

constexpr const char* kWaivers = R"([
  {"case": "ops/matmul/*", "backend": "cpu", "reason": "tail", "expires": "2026-06-30"},
  {"case": "core/copy/*", "backend": "vulkan", "reason": "driver", "expires": "2026-06-30"}])";

Waivers parse(const std::string& backend, const std::string& today) {
  Waivers waivers;
  std::string error;
  EXPECT_TRUE(parse_waivers(kWaivers, backend, today, &waivers, &error)) << error;
  return waivers;
}

TEST(Waivers, HoldForTheirBackendUntilTheirLastDay) {
  const Waivers last_day = parse("cpu", "2026-06-30");
  ASSERT_EQ(last_day.active.size(), 1U);
  EXPECT_NE(last_day.find("ops/matmul/f32/nn/m1_n1_k1"), nullptr);
  EXPECT_EQ(last_day.find("ops/add/f32/1"), nullptr);
  EXPECT_EQ(last_day.find("core/copy/many"), nullptr);
  EXPECT_TRUE(last_day.messages.empty());
}

TEST(Waivers, AreIgnoredWithAMessageOnceExpired) {
  const Waivers next_day = parse("cpu", "2026-07-01");
  EXPECT_TRUE(next_day.active.empty());
  ASSERT_EQ(next_day.messages.size(), 1U);
  EXPECT_NE(next_day.messages[0].find("expired on 2026-06-30"), std::string::npos);
}

TEST(Waivers, OfACertificateAreRead) {
  Waivers waivers;
  std::string error;
  const std::string certificate = R"({"certificate": "keel conform", "waivers": )";
  ASSERT_TRUE(parse_waivers(certificate + kWaivers + "}", "cpu", "2026-06-30", &waivers, &error))
      << error;
  ASSERT_EQ(waivers.active.size(), 1U);
  EXPECT_EQ(waivers.active[0].case_glob, "ops/matmul/*");
}

TEST(Waivers, NeedEveryMember) {
  for (const char* text :
       {"{}", R"({"waivers": {}})", "nonsense", "[1]",
        R"([{"case": "*", "backend": "cpu", "reason": "r"}])",
        R"([{"case": "*", "backend": "cpu", "reason": "", "expires": "2026-01-01"}])",
        R"([{"case": "*", "backend": "cpu", "reason": "r", "expires": "soon"}])",
        R"([{"case": "*", "backend": "cpu", "reason": "r", "expires": "2026-01-01", "x": 1}])"}) {
    Waivers waivers;
    std::string error;
    EXPECT_FALSE(parse_waivers(text, "cpu", "2026-01-01", &waivers, &error)) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
}

TEST(Waivers, TextsOfTwoContentsAreRefused) {
  const std::string one =
      R"({"case": "*", "backend": "cpu", "reason": "r", "expires": "2026-01-01")";
  const std::pair<std::string, std::string> cases[] = {
      {"[" + one + R"(, "expires": "2099-01-01"}])", "the key 'expires' is there twice in [0]"},
      {"[" + one + "}]" + std::string("\0", 1), "it has a NUL byte, at line 1, column "},
      {"[" + one + "}] []", "more text is behind the end of the JSON value, at line 1, column "},
      {"\xef\xbb\xbf[]", "it begins with a byte-order mark"},
      {"[" + one, "it ends too early, at line 1, column "}};
  for (const auto& [text, expected] : cases) {
    Waivers waivers;
    std::string error;
    EXPECT_FALSE(parse_waivers(text, "cpu", "2026-01-01", &waivers, &error)) << text;
    EXPECT_EQ(error.substr(0, expected.size()), expected);
  }
}

TEST(Waivers, TurnFailuresIntoWaivedAndPassesIntoFailures) {
  std::vector<CaseResult> results = {{"ops/matmul/a", Outcome::kFail, 0, "wrong"},
                                     {"ops/matmul/b", Outcome::kCrash, 0, "signal"},
                                     {"ops/matmul/c", Outcome::kPass, 0, ""},
                                     {"ops/matmul/d", Outcome::kUnsupported, 0, "no kernel"},
                                     {"ops/add/e", Outcome::kFail, 0, "wrong"}};
  std::vector<std::string> messages;
  apply_waivers(parse("cpu", "2026-01-01"), &results, &messages);
  EXPECT_EQ(results[0].outcome, Outcome::kWaived);
  EXPECT_NE(results[0].message.find("tail"), std::string::npos);
  EXPECT_EQ(results[1].outcome, Outcome::kWaived);
  EXPECT_EQ(results[2].outcome, Outcome::kFail);
  EXPECT_NE(results[2].message.find("unexpected pass"), std::string::npos);
  EXPECT_EQ(results[3].outcome, Outcome::kUnsupported);
  EXPECT_EQ(results[4].outcome, Outcome::kFail);
  EXPECT_TRUE(messages.empty());
}

TEST(Waivers, ThatFitNothingAreMentioned) {
  std::vector<CaseResult> results = {{"core/copy/many", Outcome::kPass, 0, ""}};
  std::vector<std::string> messages;
  apply_waivers(parse("cpu", "2026-01-01"), &results, &messages);
  EXPECT_EQ(messages.size(), 1U);
}

}  // namespace
}  // namespace keel::conformance
