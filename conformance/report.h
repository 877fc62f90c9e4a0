// SPDX-License-Identifier: Apache-2.0
// A complete or interrupted run, and its report formats for people and programs.
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
  static constexpr int kFormat = 1;  // of the JSON form; members are only added

  Target target;
  std::string plugin_sha256;  // of the plugin file
  RunSettings settings;
  std::string profile;  // "quick" or "full"
  std::string filter;   // empty: none
  std::string date;     // "YYYY-MM-DD", UTC
  std::vector<LevelSummary> levels;
  std::vector<CaseResult> results;
  std::set<std::string> full_cases;  // ids that exist only in the full profile
  std::vector<std::string> notes;    // expired and unused waivers
  size_t chosen = 0;                 // cases selected to run
  std::string stopped;               // why the run stopped early: "out of time after 60 s"
  uint32_t within_seconds = 0;       // begin no case after this time; 0: no limit
  uint32_t every = 1;                // run the first of every |every| cases of each level

  // Returns for example "out of time after 60 s: 12 of 40 cases have run"; empty if all have.
  std::string incomplete() const;
  std::string repeat(const std::string& id) const {
    return repeat_command(settings, id, full_cases.count(id) != 0);
  }
};

// Formats a failure for the console: id, reason, and the command that repeats the case.
std::string failure_text(const Report& report, const CaseResult& result);
// Formats the head of a run: the target and its capabilities.
std::string head_text(const Report& report);
// Formats the table of levels, with the reason for each level that is not certified.
std::string summary_text(const Report& report);

std::string to_json_text(const Report& report);
// JUnit XML with one test suite per level. Waived and unsupported cases are reported as skipped.
std::string to_junit_text(const Report& report);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_REPORT_H_
