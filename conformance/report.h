// SPDX-License-Identifier: Apache-2.0
// A run, finished or not, and the forms in which people and programs read it.
#ifndef KEEL_CONFORMANCE_REPORT_H_
#define KEEL_CONFORMANCE_REPORT_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "conformance/result.h"
#include "conformance/runner.h"
#include "conformance/target.h"

namespace keel::conformance {

struct Report {
  static constexpr int kFormat = 1;  // of the JSON form; members are only ever added

  Target target;
  std::string plugin_sha256;  // of the plugin file
  RunSettings settings;
  std::string profile;  // "quick" or "full"
  std::string filter;   // empty: none
  std::string date;     // "YYYY-MM-DD", UTC
  std::vector<LevelSummary> levels;
  std::vector<CaseResult> results;
  std::set<std::string> full_cases;  // ids that only the full profile has
  std::vector<std::string> notes;    // expired and idle waivers
  size_t chosen = 0;                 // cases that were to be run
  std::string stopped;               // why some of them were not: "out of time after 60 s"
  uint32_t within_seconds = 0;       // after which none was begun; 0: no such limit
  uint32_t every = 1;                // of a level's cases the first of every so many were chosen

  // "out of time after 60 s: 12 of 40 cases have run"; empty where all have.
  std::string incomplete() const;
  std::string repeat(const std::string& id) const {
    return repeat_command(settings, id, full_cases.count(id) != 0);
  }
};

// What a failure looks like on the console: id, why, and the command that repeats it.
std::string failure_text(const Report& report, const CaseResult& result);
// The head of a run: what is tested, and its claims.
std::string head_text(const Report& report);
// The table of levels, and why those that are not certified are not.
std::string summary_text(const Report& report);

std::string to_json_text(const Report& report);
// JUnit XML: a test suite for each level. Waived and unsupported cases are skipped ones.
std::string to_junit_text(const Report& report);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_REPORT_H_
