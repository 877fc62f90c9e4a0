// SPDX-License-Identifier: Apache-2.0
#include "conformance/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace keel::conformance {

namespace {

constexpr const char* kOutcomeNames[kOutcomeCount] = {"pass",   "fail",  "unsupported",
                                                      "waived", "crash", "timeout"};

// |has_passed|: a case that counts towards the level has passed.
std::string reason_not_certified(const LevelSummary& summary, const Selection& selection,
                                 bool has_passed) {
  if (summary.level != Level::kNull && !selection.no_device.empty()) {
    return "not run: no device: " + selection.no_device;
  }
  const uint32_t failures = summary.count(Outcome::kFail) + summary.count(Outcome::kCrash) +
                            summary.count(Outcome::kTimeout);
  if (failures != 0) return fmt::format("{} {} failed", failures, failures == 1 ? "case" : "cases");
  const uint64_t missing =
      level_info(summary.level).mandatory_capabilities & ~selection.capabilities;
  if (missing != 0) return "mandatory capabilities are missing: " + capability_text(missing);
  if (!selection.incomplete.empty()) return selection.incomplete;
  if (summary.count(Outcome::kPass) == 0) return "no case passed";
  if (!has_passed) {
    return summary.level == Level::kKernels ? "no case passed that launches a kernel"
                                            : "no case passed but those of one rank";
  }
  if (selection.filtered) return "a filter or a sample left cases out";
  return {};
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

std::optional<Outcome> find_outcome(std::string_view name) {
  for (size_t i = 0; i < kOutcomeCount; ++i) {
    if (name == kOutcomeNames[i]) return static_cast<Outcome>(i);
  }
  return std::nullopt;
}

bool is_failure(Outcome outcome) {
  return outcome == Outcome::kFail || outcome == Outcome::kCrash || outcome == Outcome::kTimeout;
}

void apply_waivers(const Waivers& waivers, std::vector<CaseResult>* results,
                   std::vector<std::string>* messages) {
  std::set<const Waiver*> used;
  for (CaseResult& result : *results) {
    const Waiver* waiver = waivers.find(result.id);
    if (waiver == nullptr) continue;
    used.insert(waiver);
    result.waiver = *waiver;
    if (is_failure(result.outcome)) {
      result.message = fmt::format("waived until {}: {}\n{}: {}", waiver->expires, waiver->reason,
                                   outcome_name(result.outcome), result.message);
      result.outcome = Outcome::kWaived;
    } else if (result.outcome == Outcome::kPass) {
      result.outcome = Outcome::kFail;
      result.message = fmt::format("unexpected pass: remove its waiver ({})", waiver->reason);
    }
  }
  for (const Waiver& waiver : waivers.active) {
    if (used.count(&waiver) == 0) {
      messages->push_back(fmt::format("waiver of {} fits no case that ran", waiver.case_glob));
    }
  }
}

std::vector<LevelSummary> summarise(const std::vector<CaseResult>& results,
                                    const Selection& selection) {
  std::vector<LevelSummary> summaries;
  for (const Level level : selection.levels) {
    LevelSummary summary;
    summary.level = level;
    bool has_passed = false;
    for (const CaseResult& result : results) {
      if (level_of(result.id) != level) continue;
      ++summary.counts[static_cast<size_t>(result.outcome)];
      summary.seconds += result.seconds;
      has_passed |= result.outcome == Outcome::kPass && counts_for_level(result.id);
    }
    summary.why_not = reason_not_certified(summary, selection, has_passed);
    summary.certified = summary.why_not.empty();
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

bool any_failure(const std::vector<CaseResult>& results) {
  return std::any_of(results.begin(), results.end(),
                     [](const CaseResult& result) { return is_failure(result.outcome); });
}

}  // namespace keel::conformance
