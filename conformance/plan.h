// SPDX-License-Identifier: Apache-2.0
// Selects the cases of a run.
#ifndef KEEL_CONFORMANCE_PLAN_H_
#define KEEL_CONFORMANCE_PLAN_H_

#include <functional>
#include <string>
#include <vector>

#include "conformance/runner.h"
#include "conformance/session.h"

namespace keel::conformance {

struct Plan {
  std::vector<Level> levels;
  std::vector<std::string> ids;
  bool filtered = false;  // some cases of the levels are excluded
};

// Appends the levels of |names| to |out_levels|, each once and in level order; all levels if
// |names| is empty. Returns false, with a sentence in |error|, for an unknown name.
bool parse_levels(const std::vector<std::string>& names, std::vector<Level>* out_levels,
                  std::string* error);
// Sets |options->failed| to the failed cases of the report |options->rerun_failed|, and takes what
// else decides about a result from there, except where |is_given| returns true for the option's
// name ("--seed"): otherwise a case that failed under another seed may pass. After a plugin that
// did not load, the cases are those of the report's run. On failure returns false and puts a
// sentence in |error|.
bool take_from_report(const std::function<bool(const char* option)>& is_given,
                      SessionOptions* options, std::string* error);
// Selects the case ids; |out_plan->levels| must be set. On failure returns false and puts a
// sentence in |error|.
bool select_cases(const SessionOptions& options, const Discovery& found, Plan* out_plan,
                  std::string* error);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PLAN_H_
