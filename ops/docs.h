// SPDX-License-Identifier: Apache-2.0
// docs/operators.md, written from the schema table.
#ifndef KEEL_OPS_DOCS_H_
#define KEEL_OPS_DOCS_H_

#include <string>
#include <string_view>

namespace keel::ops {

// |support| is the table of which backend computes which operator, lines with their ends.
std::string operators_markdown(std::string_view support);

// What is around that table.
inline constexpr std::string_view kSupportBegin = "<!-- support table -->\n";
inline constexpr std::string_view kSupportEnd = "<!-- end -->\n";

}  // namespace keel::ops

#endif  // KEEL_OPS_DOCS_H_
