// SPDX-License-Identifier: Apache-2.0
// Generates docs/operators.md from the schema table.
#ifndef KEEL_OPS_DOCS_H_
#define KEEL_OPS_DOCS_H_

#include <string>
#include <string_view>

namespace keel::ops {

// |support|: the lines of the table of backends and their operators, newlines included.
std::string operators_markdown(std::string_view support);

// Markers around the support table.
inline constexpr std::string_view kSupportBegin = "<!-- support table -->\n";
inline constexpr std::string_view kSupportEnd = "<!-- end -->\n";

}  // namespace keel::ops

#endif  // KEEL_OPS_DOCS_H_
