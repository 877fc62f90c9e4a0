// SPDX-License-Identifier: Apache-2.0
#include "ops/testing/case_plans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "ops/schema.h"
#include "ops/testing/case_generators.h"

namespace keel::ops {
namespace {

std::vector<Case> pairs_of(keel_op_id op) {
  std::vector<Case> pairs;
  for (Case& each : planned_cases(op)) {
    if (each.id.find("/pairwise/") != std::string::npos) pairs.push_back(std::move(each));
  }
  return pairs;
}

// Returns a case's level of a factor, as text.
using Factor = std::function<std::string(const Case&)>;

std::vector<Factor> factors_of(const Schema& schema) {
  std::vector<Factor> factors;
  factors.emplace_back([](const Case& each) { return std::to_string(each.combination); });
  for (size_t a = 0; a < schema.attributes.size(); ++a) {
    factors.emplace_back([a](const Case& each) { return std::to_string(each.attributes[a].i); });
  }
  for (size_t i = 0; i < schema.inputs.size(); ++i) {
    if (!schema.inputs[i].optional) continue;
    factors.emplace_back([i](const Case& each) { return each.inputs[i].present ? "given" : "-"; });
  }
  factors.emplace_back([](const Case& each) { return std::to_string(each.outputs[0].offset); });
  return factors;
}

// Optional inputs that are given together have no case with only one of them.
bool are_together(const CasePlan& plan, const Schema& schema, size_t a, size_t b) {
  std::vector<uint32_t> optional;
  for (uint32_t i = 0; i < schema.inputs.size(); ++i) {
    if (schema.inputs[i].optional) optional.push_back(i);
  }
  const size_t first = 1 + schema.attributes.size();
  const auto is_one = [&](size_t factor) {
    if (factor < first || factor >= first + optional.size()) return false;
    return std::count(plan.together.begin(), plan.together.end(), optional[factor - first]) != 0;
  };
  return is_one(a) && is_one(b);
}

TEST(CasePlans, EveryOperatorBeforeTheFamiliesButTransposeHasOne) {
  for (const Schema* schema : schemas()) {
    EXPECT_EQ(find_plan(schema->op) == nullptr,
              schema->op == KEEL_OP_TRANSPOSE || schema->op >= KEEL_OP_ELEMENTWISE)
        << schema->name;
  }
}

TEST(CasePlans, EveryAttributeHasAValueThatIsNotUsual) {
  for (const Schema* schema : schemas()) {
    const CasePlan* const plan = find_plan(schema->op);
    if (plan == nullptr) continue;
    SCOPED_TRACE(schema->name);
    ASSERT_EQ(plan->attributes.size(), schema->attributes.size());
    for (size_t a = 0; a < plan->attributes.size(); ++a) {
      const std::set<double> values(plan->attributes[a].begin(), plan->attributes[a].end());
      EXPECT_EQ(values.size(), plan->attributes[a].size());
      EXPECT_GE(values.size(), 2U) << schema->attributes[a].name;
    }
  }
}

TEST(CasePlans, AnyTwoLevelsMeetInACase) {
  for (const Schema* schema : schemas()) {
    const CasePlan* const plan = find_plan(schema->op);
    if (plan == nullptr) continue;
    SCOPED_TRACE(schema->name);
    const std::vector<Case> cases = pairs_of(schema->op);
    const std::vector<Factor> factors = factors_of(*schema);
    std::vector<std::set<std::string>> levels(factors.size());
    for (size_t f = 0; f < factors.size(); ++f) {
      for (const Case& each : cases) levels[f].insert(factors[f](each));
      if (f != 0) {
        EXPECT_GE(levels[f].size(), 2U) << f;
      }
    }
    EXPECT_EQ(levels[0].size(), common_combinations(schema->op));
    for (size_t a = 0; a < factors.size(); ++a) {
      for (size_t b = a + 1; b + 1 < factors.size(); ++b) {
        if (are_together(*plan, *schema, a, b)) continue;
        std::set<std::pair<std::string, std::string>> met;
        for (const Case& each : cases) met.emplace(factors[a](each), factors[b](each));
        EXPECT_EQ(met.size(), levels[a].size() * levels[b].size()) << a << " and " << b;
      }
    }
  }
}

TEST(CasePlans, AnyAttributeMeetsEachExtent) {
  for (const Schema* schema : schemas()) {
    const CasePlan* const plan = find_plan(schema->op);
    if (plan == nullptr || plan->extents.size() != 1) continue;
    SCOPED_TRACE(schema->name);
    for (size_t a = 0; a < schema->attributes.size(); ++a) {
      std::set<std::pair<int64_t, std::string>> met;
      for (const Case& each : pairs_of(schema->op)) {
        // Ids start with operator, dtype and pairwise, followed by the extents.
        size_t at = 0;
        for (int slash = 0; slash < 3; ++slash) at = each.id.find('/', at) + 1;
        met.emplace(each.attributes[a].i, each.id.substr(at, each.id.find('/', at) - at));
      }
      EXPECT_EQ(met.size(), plan->attributes[a].size() * plan->extents[0].size())
          << schema->attributes[a].name;
    }
  }
}

TEST(CasePlans, EachTensorIsUnalignedAndStridedAlone) {
  for (const Schema* schema : schemas()) {
    const CasePlan* const plan = find_plan(schema->op);
    if (plan == nullptr) continue;
    SCOPED_TRACE(schema->name);
    std::set<size_t> unaligned;
    size_t strided = 0;
    for (const Case& each : planned_cases(schema->op)) {
      if (each.id.find("/alone/") == std::string::npos) continue;
      strided += each.strided ? 1 : 0;
      for (size_t i = 0; i < each.inputs.size(); ++i) {
        if (each.inputs[i].offset != 0) unaligned.insert(i);
      }
      for (size_t o = 0; o < each.outputs.size(); ++o) {
        if (each.outputs[o].offset != 0) unaligned.insert(each.inputs.size() + o);
      }
    }
    EXPECT_EQ(unaligned.size(), schema->inputs.size() + schema->outputs.size());
    EXPECT_GE(strided, 1U);
  }
}

}  // namespace
}  // namespace keel::ops
