// SPDX-License-Identifier: Apache-2.0
// Generates the support table from reports of finished runs.
#ifndef KEEL_CONFORMANCE_SUPPORT_TABLE_H_
#define KEEL_CONFORMANCE_SUPPORT_TABLE_H_

#include <string>
#include <vector>

namespace keel::conformance {

// Prints a Markdown table to stdout, one row per JSON report in |files|: how the operators were
// computed (docs/conformance.md), and cases passed per level, in bold where the level is certified,
// "-" where nothing ran. Returns the exit code: 2 if a file is not a report, which stderr names.
int print_support_table(const std::vector<std::string>& files);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SUPPORT_TABLE_H_
