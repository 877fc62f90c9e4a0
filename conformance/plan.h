// SPDX-License-Identifier: Apache-2.0
// Which cases a run is about.
#ifndef KEEL_CONFORMANCE_PLAN_H_
#define KEEL_CONFORMANCE_PLAN_H_

#include <string>
#include <vector>

#include "conformance/runner.h"
#include "conformance/session.h"

namespace keel::conformance {

struct Plan {
  std::vector<Level> levels;
  std::vector<std::string> ids;
  bool filtered = false;  // some cases of the levels are left out
};

// The levels of |names|, each once and in their order, or all.
bool parse_levels(const std::vector<std::string>& names, std::vector<Level>* out_levels,
                  std::string* error);
// Fills in the cases; the levels are there already.
bool select_cases(const SessionOptions& options, const Discovery& found, Plan* out_plan,
                  std::string* error);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_PLAN_H_
