// SPDX-License-Identifier: Apache-2.0
#include "collectives/hosts/host_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/hosts/host_group.h"
#include "collectives/selection/table.h"

namespace keel {
namespace {

std::vector<Rule> rules_of(const std::string& lines) {
  std::vector<Rule> rules;
  const Status status = read_table("keel-collectives 1\n" + lines, &rules);
  EXPECT_TRUE(status.ok()) << status.text();
  return host_rules_of(rules);
}

const auto kAnyAlgorithm = [](Algorithm) { return true; };

TEST(HostRulesTest, TextHoldsEveryRule) {
  const std::vector<Rule> rules = rules_of(
      "all_to_all 0-1K * hosts * aggregated\n"
      "all_to_all_v 0-64K * hosts * aggregated\n"
      "all_reduce 64K-1M 2-4 alias dedicated ring 20\n"
      "all_reduce 1M- 9- hosts:4- * ring 7\n"
      "broadcast * 8 hosts:2-3 * binomial\n");
  ASSERT_EQ(rules.size(), 4u);
  std::vector<Rule> read;
  ASSERT_TRUE(read_host_rules(write_host_rules(rules), &read));
  ASSERT_EQ(read.size(), 4u);
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].collective, rules[i].collective);
    EXPECT_EQ(read[i].first_byte_count, rules[i].first_byte_count);
    EXPECT_EQ(read[i].last_byte_count, rules[i].last_byte_count);
    EXPECT_EQ(read[i].first_world, rules[i].first_world);
    EXPECT_EQ(read[i].last_world, rules[i].last_world);
    EXPECT_EQ(read[i].first_hosts, rules[i].first_hosts);
    EXPECT_EQ(read[i].last_hosts, rules[i].last_hosts);
    EXPECT_EQ(read[i].algorithm, rules[i].algorithm);
    EXPECT_EQ(read[i].score, rules[i].score);
  }
}

TEST(HostRulesTest, NoRulesAreNoText) {
  EXPECT_EQ(write_host_rules({}), "");
  std::vector<Rule> read(1);
  EXPECT_TRUE(read_host_rules("", &read));
  EXPECT_TRUE(read.empty());
}

TEST(HostRulesTest, MalformedTextIsRefused) {
  const std::string good = write_host_rules(rules_of("all_to_all * * hosts * aggregated\n"));
  std::vector<Rule> read;
  ASSERT_TRUE(read_host_rules(good, &read));
  for (const std::string& text :
       {good + ";", good + ",", good + ";1", good.substr(0, good.size() / 2), std::string("x"),
        "99" + good, ";" + good, std::string(" ")}) {
    EXPECT_FALSE(read_host_rules(text, &read)) << text;
  }
  std::string many = good;
  for (size_t i = 0; i < kMostHostRules; ++i) many += ";" + good;
  EXPECT_FALSE(read_host_rules(many, &read));
}

TEST(HostRulesTest, LongestRulesFitIntoFacts) {
  HostAgreement agreement;
  agreement.chunk_bytes = 1 << 30;
  agreement.algorithm = Algorithm::kAggregated;
  agreement.lane_shares.assign(kMostLaneShares, kMostLaneShare);
  Rule rule = rules_of("all_to_all * * hosts * aggregated 1000\n")[0];
  rule.first_byte_count = UINT64_MAX - 2;
  rule.last_byte_count = UINT64_MAX - 1;
  rule.first_world = rule.first_hosts = UINT32_MAX - 2;
  rule.last_world = rule.last_hosts = UINT32_MAX - 1;
  agreement.rules.assign(kMostHostRules, rule);
  const std::string text = agreement.write();
  EXPECT_LE(text.size(), size_t{kMaxHostFacts});
  HostAgreement read;
  ASSERT_TRUE(HostAgreement::read(text, &read).ok());
  EXPECT_EQ(read.rules.size(), kMostHostRules);
  EXPECT_EQ(read.lane_shares, agreement.lane_shares);
}

TEST(HostRulesTest, RulesFitByRanksAndHosts) {
  const std::vector<Rule> rules = rules_of(
      "all_to_all * 2-8 hosts:2 * aggregated\n"
      "all_to_all * 9- hosts:3- * direct\n");
  EXPECT_EQ(fitting_host_rules(rules, 8, 2).size(), 1u);
  EXPECT_EQ(fitting_host_rules(rules, 8, 3).size(), 0u);
  EXPECT_EQ(fitting_host_rules(rules, 9, 4).size(), 1u);
}

TEST(HostRulesTest, HighestScoreThenLastRuleWins) {
  const std::vector<Rule> rules = rules_of(
      "all_to_all * * hosts * direct 10\n"
      "all_to_all 0-1K * hosts * aggregated 20\n"
      "all_to_all 0-64 * hosts * bruck 20\n");
  const auto found = [&](uint64_t bytes) {
    return find_host_rule(rules, KEEL_ALL_TO_ALL, bytes, kAnyAlgorithm)->algorithm;
  };
  EXPECT_EQ(found(64), Algorithm::kBruck);
  EXPECT_EQ(found(1024), Algorithm::kAggregated);
  EXPECT_EQ(found(1025), Algorithm::kDirect);
  EXPECT_EQ(find_host_rule(rules, KEEL_ALL_GATHER, 64, kAnyAlgorithm), nullptr);
  const auto no_bruck = [](Algorithm algorithm) { return algorithm != Algorithm::kBruck; };
  EXPECT_EQ(find_host_rule(rules, KEEL_ALL_TO_ALL, 64, no_bruck)->algorithm,
            Algorithm::kAggregated);
}

TEST(HostRulesTest, TooManyRulesNameTheLine) {
  std::string text = "keel-collectives 1\n";
  for (size_t i = 0; i <= kMostHostRules; ++i) text += "all_to_all * * hosts * direct\n";
  std::vector<Rule> rules;
  EXPECT_STREQ(read_table(text, &rules).text(), "line 26: more than 24 rules for hosts");
}

}  // namespace
}  // namespace keel
