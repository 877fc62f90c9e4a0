// SPDX-License-Identifier: Apache-2.0
// A picture of what keel_topology_get tells.
#ifndef KEEL_CLI_TOPO_SVG_H_
#define KEEL_CLI_TOPO_SVG_H_

#include <string>

#include "cli/command.h"

namespace keel::cli {

// "512.0 GiB"; "unknown" for null.
std::string size_text(const Json& bytes);
// "PIX"-like codes of the table of distances: "chip", "switch", "bridge", "node",
// "across", "?".
std::string distance_code(const std::string& distance);

// A whole SVG document.
std::string draw_topology(const Json& topology);

}  // namespace keel::cli

#endif  // KEEL_CLI_TOPO_SVG_H_
