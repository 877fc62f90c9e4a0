// SPDX-License-Identifier: Apache-2.0
#include "conformance/result.h"

#include <gtest/gtest.h>

namespace keel::conformance {
namespace {

LevelSummary summarise_one(Level level, const std::vector<CaseResult>& results,
                           uint64_t capabilities, bool filtered = false,
                           const std::string& no_device = "") {
  return summarise(results, {{level}, filtered, no_device, capabilities}).at(0);
}

TEST(Result, NamesGoBothWays) {
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    EXPECT_EQ(find_outcome(outcome_name(outcome)), outcome);
  }
  EXPECT_EQ(find_outcome("passed"), std::nullopt);
  for (const LevelInfo& info : levels()) {
    EXPECT_EQ(find_level(info.name), info.level);
    EXPECT_EQ(level_of(std::string(info.name) + "/some/case"), info.level);
    EXPECT_STREQ(level_info(info.level).name, info.name);
  }
}

TEST(Result, ALevelIsCertifiedByItsOwnCasesAlone) {
  const std::vector<CaseResult> results = {{"core/a", Outcome::kPass, 1, ""},
                                           {"core/b", Outcome::kUnsupported, 2, "not claimed"},
                                           {"core/c", Outcome::kWaived, 0, "known"},
                                           {"async/d", Outcome::kFail, 4, "wrong"}};
  const LevelSummary core = summarise_one(Level::kCore, results, KEEL_CAPABILITY_PINNED);
  EXPECT_TRUE(core.certified) << core.why_not;
  EXPECT_EQ(core.count(Outcome::kPass), 1U);
  EXPECT_EQ(core.count(Outcome::kUnsupported), 1U);
  EXPECT_EQ(core.count(Outcome::kWaived), 1U);
  EXPECT_EQ(core.count(Outcome::kFail), 0U);
  EXPECT_DOUBLE_EQ(core.seconds, 3);
  EXPECT_FALSE(summarise_one(Level::kAsync, results, KEEL_CAPABILITY_ASYNC).certified);
}

TEST(Result, FailuresCrashesAndTimeoutsPreventIt) {
  for (const Outcome outcome : {Outcome::kFail, Outcome::kCrash, Outcome::kTimeout}) {
    const LevelSummary core = summarise_one(
        Level::kCore, {{"core/a", Outcome::kPass, 0, ""}, {"core/b", outcome, 0, "bad"}},
        KEEL_CAPABILITY_PINNED);
    EXPECT_FALSE(core.certified);
    EXPECT_EQ(core.why_not, "1 case failed");
  }
}

TEST(Result, SoDoMissingClaimsFiltersAndNothingPassed) {
  const std::vector<CaseResult> passed = {{"core/a", Outcome::kPass, 0, ""}};
  EXPECT_NE(summarise_one(Level::kCore, passed, 0).why_not.find("PINNED"), std::string::npos);
  EXPECT_FALSE(summarise_one(Level::kCore, passed, KEEL_CAPABILITY_PINNED, true).certified);
  EXPECT_FALSE(summarise_one(Level::kCore, {{"core/a", Outcome::kUnsupported, 0, ""}},
                             KEEL_CAPABILITY_PINNED)
                   .certified);
}

TEST(Result, OneRankAloneCertifiesNoCollectives) {
  const CaseResult alone = {"collectives/one_rank/split", Outcome::kPass, 0, ""};
  const LevelSummary one = summarise_one(Level::kCollectives, {alone}, KEEL_CAPABILITY_CCL);
  EXPECT_EQ(one.why_not, "no case passed but those of one rank");
  const CaseResult several = {"collectives/native", Outcome::kPass, 0, ""};
  EXPECT_TRUE(summarise_one(Level::kCollectives, {alone, several}, KEEL_CAPABILITY_CCL).certified);
}

TEST(Result, RefusalsAloneCertifyNoKernels) {
  const CaseResult refused = {"kernels/load/formats", Outcome::kPass, 0, ""};
  const CaseResult not_run = {"kernels/axpy/1", Outcome::kUnsupported, 0, "no binary"};
  const LevelSummary none =
      summarise_one(Level::kKernels, {refused, not_run}, KEEL_CAPABILITY_KERNELS);
  EXPECT_EQ(none.why_not, "no case passed that launches a kernel");
  const CaseResult launched = {"kernels/axpy/63", Outcome::kPass, 0, ""};
  EXPECT_TRUE(
      summarise_one(Level::kKernels, {refused, launched}, KEEL_CAPABILITY_KERNELS).certified);
}

TEST(Result, WithoutADeviceOnlyNullIsCertified) {
  const std::vector<CaseResult> passed = {{"null/load", Outcome::kPass, 0, ""}};
  EXPECT_TRUE(summarise_one(Level::kNull, passed, 0, false, "no chip").certified);
  const LevelSummary core = summarise_one(Level::kCore, passed, 0, false, "no chip");
  EXPECT_FALSE(core.certified);
  EXPECT_EQ(core.why_not, "not run: no device: no chip");
}

TEST(Result, ClaimsAreNamed) {
  EXPECT_EQ(capability_text(0), "none");
  EXPECT_EQ(capability_text(KEEL_CAPABILITY_ASYNC | KEEL_CAPABILITY_PINNED), "PINNED ASYNC");
  EXPECT_EQ(capability_text(uint64_t{1} << 40), "bit 40");
}

}  // namespace
}  // namespace keel::conformance
