// SPDX-License-Identifier: Apache-2.0
// The table of what is supported where, made from reports of finished runs.
#ifndef KEEL_CONFORMANCE_SUPPORT_TABLE_H_
#define KEEL_CONFORMANCE_SUPPORT_TABLE_H_

#include <string>
#include <vector>

namespace keel::conformance {

// Prints a Markdown table to stdout, a row for each of the JSON reports |files|: what operators
// were computed by (docs/conformance.md), and cases passed by level, in bold where the level is
// certified, "-" where nothing ran. Returns the exit code: 2, with the file named on stderr, for
// one that is no report.
int print_support_table(const std::vector<std::string>& files);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SUPPORT_TABLE_H_
