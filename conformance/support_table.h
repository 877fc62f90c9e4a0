// SPDX-License-Identifier: Apache-2.0
// Generates the support table from reports of finished runs.
#ifndef KEEL_CONFORMANCE_SUPPORT_TABLE_H_
#define KEEL_CONFORMANCE_SUPPORT_TABLE_H_

#include <string>
#include <vector>

namespace keel::conformance {

// Prints a Markdown table to stdout, one row per JSON report in |files|: for which chips the
// backend's kernels compile, how the operators were computed (docs/conformance.md), and cases
// passed per level, in bold where the level is certified, "-" where nothing ran. |compiled|: a file
// with a line "BACKEND: TARGETS" for each backend with compiled kernels, which the build writes;
// empty: none is known. Returns the exit code: 2 if a file cannot be read or is not a report, which
// stderr names.
int print_support_table(const std::vector<std::string>& files, const std::string& compiled = {});

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_SUPPORT_TABLE_H_
